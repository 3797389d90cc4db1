/* SPDX-License-Identifier: MIT */
/*
 * host/objects/objects.c - the table of loaded files ("objects").
 *
 * An object is entered by the first thread whose stack has an address of the object, or by a report that asks the
 * loader for all files. As with frames, two threads may enter an object at once. Then one of the two ids is a duplicate
 * and is retired immediately. Index slots change once, from 0 to an id, after the object is complete: [OBJECT].
 *
 * Two objects are the same if they have the same range, unwind table and `fingerprint`, and the same build-id.
 * Objects without a build-id are compared by name, if both names are known.
 *
 * If the loader can be asked, each look-up asks it which file lies at the address now. If not (loader_scan.c), the
 * look-up searches the table. It accepts an object whose range contains the address only if the fingerprint is still in
 * memory. So if a file was unloaded unnoticed and another one lies at its addresses, the old object is not used, and
 * its unwind table is not read.
 *
 * [OBJECT] the id in the index and `ready` in the object are stored with release. A look-up reads the id with acquire;
 * code that walks the ids reads `ready` with acquire. Otherwise either could use an object that is not yet written.
 */
#include "host/objects/objects.h"

#include "base/hash.h"
#include "base/mem.h"

#include "host/objects/ids.h"
#include "host/objects/reach.h"
#include "host/shared/shared.h"

#include <errno.h>
#include <string.h>

enum { PROBES = 64, NO_NAME = 1 /* the offset of "?" among the names */, NAME_MAX_BYTES = 1024 };

static struct dp_object *objects;
static _Atomic uint32_t *slots;
static uint32_t capacity, slot_mask;
static _Atomic uint32_t next_id = 1;
static char *names;
static uint32_t names_bytes;
static _Atomic uint32_t names_used = 3; /* "" and "?" come first */

int dp_objects_init(size_t budget_bytes)
{
    uint32_t n = 128;
    while (n < (1u << 20) && (size_t)n * 2 * (sizeof *objects + 2 * sizeof *slots + 64) <= budget_bytes)
        n *= 2;
    capacity = n;
    slot_mask = 2 * n - 1;
    names_bytes = n * 64;
    if (dp_shared_array_init(DP_ARRAY_OBJECTS, sizeof *objects, n, n, 1) ||
        dp_shared_array_init(DP_ARRAY_NAMES, 1, names_bytes, names_bytes, 1))
        return -ENOMEM;
    objects = dp_shared_at(DP_ARRAY_OBJECTS);
    names = dp_shared_at(DP_ARRAY_NAMES);
    dp_shared_array(DP_ARRAY_OBJECTS)->used = &next_id;
    dp_shared_array(DP_ARRAY_NAMES)->used = &names_used;
    slots = dp_mem_table((size_t)2 * n * sizeof *slots);
    if (!slots)
        return -ENOMEM;
    names[NO_NAME] = '?';
    return 0;
}

/*
 * Returns the offset of the name among the names. Copies the name if no object has it yet. NO_NAME: name is NULL, or
 * there is no room.
 */
static uint32_t keep_name(const char *name)
{
    size_t n = name ? strnlen(name, NAME_MAX_BYTES) : 0;
    if (!n)
        return name ? 0 : NO_NAME;
    /* newest first: a plugin may be loaded again and again at other addresses */
    for (uint32_t id = dp_objects_count(); id-- > 1;)
        if (dp_load_acquire(&objects[id].ready) /* [OBJECT] */ && !strncmp(dp_object_name(&objects[id]), name, n + 1))
            return dp_load_acquire(&objects[id].name);
    uint32_t at = dp_add_relaxed(&names_used, (uint32_t)n + 1);
    if (at + n + 1 > names_bytes || at + n + 1 < at ||
        !dp_shared_commit(dp_shared_array(DP_ARRAY_NAMES), at + (uint32_t)n + 1)) {
        dp_sub_relaxed(&names_used, (uint32_t)n + 1);
        return NO_NAME;
    }
    memcpy(names + at, name, n);
    return at;
}

const char *dp_object_name(const struct dp_object *object)
{
    return names + dp_load_acquire(&object->name); /* [OBJECT] */
}

static bool is_nameless(const struct dp_object *object)
{
    return dp_load_relaxed(&object->name) == NO_NAME;
}

static bool same_build(const struct dp_object *a, const struct dp_object *b)
{
    return a->build_id_bytes && a->build_id_bytes == b->build_id_bytes &&
           !memcmp(a->build_id, b->build_id, a->build_id_bytes);
}

/*
 * Shares names between objects of one build-id, as of a file that is loaded again at other addresses. With NO_NAME:
 * returns the name of such an object, if one has a name. Else: gives the name to those that have none.
 */
static uint32_t share_name(const struct dp_object *seen, uint32_t name)
{
    uint32_t n = dp_objects_count();
    for (dp_object_id id = 1; id < n; id++) {
        struct dp_object *o = &objects[id];
        if (!dp_load_acquire(&o->ready) /* [OBJECT] */ || is_nameless(o) == (name == NO_NAME) || !same_build(o, seen))
            continue;
        if (name == NO_NAME)
            return dp_load_acquire(&o->name);
        dp_store_release(&o->name, name); /* [OBJECT] */
    }
    return name;
}

static bool same(const struct dp_object *known, const struct dp_object *seen, const char *seen_name)
{
    if (known->start != seen->start || known->end != seen->end || known->eh_frame_hdr != seen->eh_frame_hdr ||
        known->build_id_bytes != seen->build_id_bytes ||
        memcmp(known->fingerprint, seen->fingerprint, sizeof known->fingerprint))
        return false;
    if (known->build_id_bytes)
        return !memcmp(known->build_id, seen->build_id, known->build_id_bytes);
    return !seen_name || is_nameless(known) || !strncmp(dp_object_name(known), seen_name, NAME_MAX_BYTES);
}

/* Whether the object's fingerprint is still in memory. That memory may be unmapped at any moment. */
static bool same_print(const struct dp_object *object)
{
    uintptr_t at = (uintptr_t)object->fingerprint_at;
    return at && dp_reach_compare(at, object->fingerprint[0]) > 0 &&
           dp_reach_compare(at + 4, object->fingerprint[1]) > 0;
}

static bool matches(const struct dp_object *object, const struct dp_loaded *found)
{
    return object->start == found->start && object->end == found->end && object->eh_frame_hdr == found->eh_frame_hdr;
}

static void describe(const struct dp_loaded *found, struct dp_object *object)
{
    *object = (struct dp_object){
        .start = found->start,
        .end = found->end,
        .bias = found->bias,
        .eh_frame_hdr = found->eh_frame_hdr,
    };
    dp_object_read(object);
}

bool dp_object_look(uintptr_t pc, struct dp_object *object)
{
    struct dp_loaded found;
    if (!dp_loader_find(pc, &found))
        return false;
    describe(&found, object);
    return true;
}

dp_object_id dp_object_enter(const struct dp_loaded *found)
{
    struct dp_object seen;
    if (!slots)
        return 0;
    describe(found, &seen);
    uint64_t hash = dp_hash_mix(seen.start);
    dp_object_id mine = 0;
    for (uint32_t i = 0; i < PROBES; i++) {
        _Atomic uint32_t *slot = &slots[(hash + i) & slot_mask];
        uint32_t id = dp_load_acquire(slot); /* [OBJECT] */
        if (!id) {
            if (!mine) {
                mine = dp_id_next(&next_id, capacity);
                if (!mine || !dp_shared_commit(dp_shared_array(DP_ARRAY_OBJECTS), mine + 1))
                    return 0;
                dp_store_relaxed(&seen.name, share_name(&seen, keep_name(found->name)));
                memcpy(&objects[mine], &seen, offsetof(struct dp_object, ready));
                dp_store_release(&objects[mine].ready, 1); /* [OBJECT] */
            }
            if (dp_cas_publish(slot, &id, mine)) /* [OBJECT] */
                return mine;
        }
        if (same(&objects[id], &seen, found->name)) {
            if (mine)
                dp_store_relaxed(&objects[mine].retired, 1);
            if (found->name && is_nameless(&objects[id])) {
                dp_store_release(&objects[id].name, keep_name(found->name)); /* [OBJECT] */
                share_name(&seen, dp_load_relaxed(&objects[id].name));
            }
            dp_store_relaxed(&objects[id].retired, 0);
            return id;
        }
    }
    return 0;
}

/* Searches the table, for when the loader cannot be asked. */
static dp_object_id find_known(uintptr_t pc)
{
    for (dp_object_id id = dp_objects_count(); id-- > 1;) {
        const struct dp_object *o = &objects[id];
        if (dp_load_acquire(&o->ready) /* [OBJECT] */ && !dp_load_relaxed(&o->retired) &&
            pc - o->start < o->end - o->start && same_print(o))
            return id;
    }
    return 0;
}

const struct dp_object *dp_object_at(uintptr_t start)
{
    dp_object_id id = slots ? find_known(start) : 0;
    return id && objects[id].start == start ? &objects[id] : NULL;
}

dp_object_id dp_object_find(uintptr_t pc)
{
    struct dp_loaded found;
    if (!slots)
        return 0;
    dp_object_id known = dp_loader_answers() ? 0 : find_known(pc);
    if (known)
        return known;
    if (!dp_loader_find(pc, &found))
        return 0;
    uint64_t hash = dp_hash_mix(found.start);
    bool changing = dp_objects_changing() || !dp_loader_answers();
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t id = dp_load_acquire(&slots[(hash + i) & slot_mask]); /* [OBJECT] */
        if (!id)
            break;
        const struct dp_object *o = &objects[id];
        if (matches(o, &found) && !dp_load_relaxed(&o->retired) && (!changing || same_print(o)))
            return id;
    }
    return dp_object_enter(&found);
}

/* Whether the object is unmapped, or another file lies at its addresses. */
static bool is_gone(const struct dp_object *object)
{
    struct dp_loaded found;
    if (dp_loader_answers() && !(dp_loader_find(object->start, &found) && matches(object, &found)))
        return true;
    return !same_print(object);
}

bool dp_object_retire_if_gone(dp_object_id id)
{
    struct dp_object *object = &objects[id];
    if (!dp_load_acquire(&object->ready) /* [OBJECT] */ || dp_load_relaxed(&object->retired) || !is_gone(object))
        return false;
    dp_store_relaxed(&object->retired, 1);
    return true;
}

uint32_t dp_objects_count(void)
{
    uint32_t n = dp_load_acquire(&next_id), most = dp_load_relaxed(&dp_shared_array(DP_ARRAY_OBJECTS)->committed);
    return n < most ? n : most;
}

const struct dp_object *dp_object_get(dp_object_id id)
{
    return &objects[id];
}

bool dp_objects_adopt(uint32_t n, uint32_t n_names)
{
    if (!n || n > capacity || n_names < 3 || n_names > names_bytes)
        return false;
    names[n_names - 1] = '\0';
    for (dp_object_id id = 1; id < n; id++) {
        struct dp_object *o = &objects[id];
        if (!dp_load_relaxed(&o->ready)) {
            *o = (struct dp_object){0};
            continue;
        }
        if (dp_load_relaxed(&o->name) >= n_names || o->build_id_bytes > sizeof o->build_id || o->end < o->start)
            return false;
        o->eh_frame_hdr = o->fingerprint_at = NULL;
        o->fde_table = NULL;
    }
    dp_store_relaxed(&next_id, n);
    dp_store_relaxed(&names_used, n_names);
    return true;
}

dp_object_id dp_objects_main(void)
{
    uint32_t n = dp_objects_count();
    for (dp_object_id id = 1; id < n; id++)
        if (dp_load_relaxed(&objects[id].ready) && !*dp_object_name(&objects[id]))
            return id;
    return 0;
}
