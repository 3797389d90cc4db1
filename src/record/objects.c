/* SPDX-License-Identifier: MIT */
/*
 * record/objects.c - the table of loaded files, and how it learns that one is gone.
 *
 * Found through _dl_find_object, which takes no lock and is safe in signal handlers. An object is entered by the first
 * thread that has one of its addresses on its stack; as with frames, two threads may enter it at once, and then
 * one of the two ids is a twin, born retired. Index slots go 0 -> id, once, by [OBJECT], after the object is complete.
 *
 * Identity is (range, build-id), or (range, name, unwind table's header) where there is no build-id. Retiring is cheap
 * and may be wrong: an object that turns up again with its old identity gets its old id back.
 *
 * The unload word counts threads between unload_begin and unload_end; CHECKING stands in it while one of them asks the
 * loader for every object. A begin waits for that, so that no hooked dlclose runs below the check. One that no hook
 * sees still may (iconv_close), so the check reads the object's memory only through the kernel, which reports what is
 * not there: FUTEX_CMP_REQUEUE of nobody to nobody compares a word, and every sandbox allows it.
 *
 * [OBJECT] a release of the id, and of `ready`, met by the acquire of whoever finds the one, or comes by the number and
 * asks for the other; without it they could use an object whose words are not there yet.
 * [UNLOAD] the word falls to 0 after the check. Who reads 0 there first and the generation second (acquire) has a
 * generation no older than that check: code that was loaded where something else lay before cannot run unnoticed,
 * because its loading came after the unload_begin, and so sees either the word set or what the end left.
 * [RETIRE] the generation moves (release) after `retired` is set; who reads the new one (acquire) sees what was
 * retired.
 */
#include "record/objects.h"

#include "base/hash.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern int _dl_find_object(void *address, struct dl_find_object *result) __attribute__((weak));

enum { PROBES = 64, NO_ROOM = 1 /* where "?" stands among the names */, NAME_MAX_BYTES = 1024, CHECK_WAITS = 10000 };
#define CHECKING (1u << 31)

static struct dp_object *objects;
static _Atomic uint32_t *slots;
static uint32_t capacity, slot_mask;
static _Atomic uint32_t next_id = 1;
static char *names;
static uint32_t names_bytes;
static _Atomic uint32_t names_used = 3; /* "" and "?" come first */
static _Atomic uint32_t generation = 1;
static _Atomic uint32_t unload;
static _Atomic uint32_t doubtful; /* forked while another thread was unloading: a known range may hold something else */

int dp_objects_init(size_t budget_bytes)
{
    uint32_t n = 128;
    while (n < (1u << 20) && (size_t)n * 2 * (sizeof *objects + 2 * sizeof *slots + 64) <= budget_bytes)
        n *= 2;
    capacity = n;
    slot_mask = 2 * n - 1;
    names_bytes = n * 64;
    objects = dp_mem_table(n * sizeof *objects);
    slots = dp_mem_table((size_t)2 * n * sizeof *slots);
    names = dp_mem_table(names_bytes);
    if (!objects || !slots || !names)
        return -ENOMEM;
    names[NO_ROOM] = '?';
    return 0;
}

/* Copies a name, unless an object has it already; no name is the main program's, and without room it is "?". */
static uint32_t keep_name(const char *name)
{
    size_t n = name ? strnlen(name, NAME_MAX_BYTES) : 0;
    if (!n)
        return 0;
    for (uint32_t id = dp_objects_count(); id-- > 1;) /* a plugin comes again and again, at other addresses */
        if (dp_load_acquire(&objects[id].ready) /* [OBJECT] */ && !strncmp(names + objects[id].name, name, n + 1))
            return objects[id].name;
    uint32_t at = dp_add_relaxed(&names_used, (uint32_t)n + 1);
    if (at + n + 1 > names_bytes || at + n + 1 < at) {
        dp_sub_relaxed(&names_used, (uint32_t)n + 1);
        return NO_ROOM;
    }
    memcpy(names + at, name, n);
    return at;
}

const char *dp_object_name(const struct dp_object *object)
{
    return names + object->name;
}

static bool same(const struct dp_object *known, const struct dp_object *seen, const char *seen_name)
{
    if (known->start != seen->start || known->end != seen->end || known->eh_frame_hdr != seen->eh_frame_hdr ||
        known->build_id_bytes != seen->build_id_bytes || memcmp(known->print, seen->print, sizeof known->print))
        return false;
    if (known->build_id_bytes)
        return !memcmp(known->build_id, seen->build_id, known->build_id_bytes);
    return !strncmp(dp_object_name(known), seen_name ? seen_name : "", NAME_MAX_BYTES);
}

static dp_object_id take_id(void)
{
    if (dp_load_relaxed(&next_id) >= capacity)
        return 0;
    uint32_t id = dp_add_relaxed(&next_id, 1);
    if (id < capacity)
        return id;
    dp_sub_relaxed(&next_id, 1);
    return 0;
}

/* Whether the word at address, which may be unmapped at any moment, still is `expected`. */
static bool still_there(const void *address, uint32_t expected)
{
    static uint32_t nobody;
    return syscall(SYS_futex, address, FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, &nobody, expected) >= 0;
}

/* Whether the words that tell the object from others are still where they were. */
static bool same_print(const struct dp_object *object)
{
    const char *at = object->print_at;
    return at && still_there(at, object->print[0]) && still_there(at + 4, object->print[1]);
}

static bool matches(const struct dp_object *object, const struct dl_find_object *found)
{
    return object->start == (uintptr_t)found->dlfo_map_start && object->end == (uintptr_t)found->dlfo_map_end &&
           object->eh_frame_hdr == found->dlfo_eh_frame;
}

static void look(const struct dl_find_object *found, struct dp_object *object)
{
    const struct link_map *map = found->dlfo_link_map;
    *object = (struct dp_object){
        .start = (uintptr_t)found->dlfo_map_start,
        .end = (uintptr_t)found->dlfo_map_end,
        .bias = map ? map->l_addr : 0,
        .eh_frame_hdr = found->dlfo_eh_frame,
    };
    dp_object_read(object);
}

bool dp_object_look(uintptr_t pc, struct dp_object *object)
{
    struct dl_find_object found;
    if (!_dl_find_object || _dl_find_object((void *)pc, &found))
        return false;
    look(&found, object);
    return true;
}

/* Not known, or known only as retired: looks at the file's headers. */
static dp_object_id enter(const struct dl_find_object *found)
{
    struct dp_object seen;
    look(found, &seen);
    const struct link_map *map = found->dlfo_link_map;
    const char *name = map ? map->l_name : NULL;
    uint64_t hash = dp_hash_mix(seen.start);
    dp_object_id mine = 0;
    for (uint32_t i = 0; i < PROBES; i++) {
        _Atomic uint32_t *slot = &slots[(hash + i) & slot_mask];
        uint32_t id = dp_load_acquire(slot); /* [OBJECT] */
        if (!id) {
            if (!mine) {
                mine = take_id();
                if (!mine)
                    return 0;
                seen.name = keep_name(name);
                memcpy(&objects[mine], &seen, offsetof(struct dp_object, ready));
                dp_store_release(&objects[mine].ready, 1); /* [OBJECT] */
            }
            if (dp_cas_publish(slot, &id, mine)) /* [OBJECT] */
                return mine;
        }
        if (same(&objects[id], &seen, name)) {
            if (mine)
                dp_store_relaxed(&objects[mine].retired, 1);
            dp_store_relaxed(&objects[id].retired, 0);
            return id;
        }
    }
    return 0;
}

dp_object_id dp_object_find(uintptr_t pc)
{
    struct dl_find_object found;
    if (!_dl_find_object || !slots || _dl_find_object((void *)pc, &found))
        return 0;
    uintptr_t start = (uintptr_t)found.dlfo_map_start;
    uint64_t hash = dp_hash_mix(start);
    bool changing = dp_objects_unloading() || dp_load_relaxed(&doubtful);
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t id = dp_load_acquire(&slots[(hash + i) & slot_mask]); /* [OBJECT] */
        if (!id)
            break;
        const struct dp_object *known = &objects[id];
        if (matches(known, &found) && !dp_load_relaxed(&known->retired) && (!changing || same_print(known)))
            return id;
    }
    return enter(&found);
}

uint32_t dp_objects_count(void)
{
    uint32_t n = dp_load_acquire(&next_id);
    return n < capacity ? n : capacity;
}

const struct dp_object *dp_object_get(dp_object_id id)
{
    return &objects[id];
}

/* ---- unloads ---------------------------------------------------------------------------------------------------- */

static bool still_loaded(const struct dp_object *object)
{
    struct dl_find_object found;
    return _dl_find_object && !_dl_find_object((void *)object->start, &found) && matches(object, &found) &&
           same_print(object);
}

static void check_all(void)
{
    dp_store_relaxed(&doubtful, 0);
    bool moved = false;
    uint32_t n = dp_objects_count();
    for (uint32_t id = 1; id < n; id++) {
        struct dp_object *object = &objects[id];
        if (!dp_load_acquire(&object->ready) /* [OBJECT] */ || dp_load_relaxed(&object->retired) ||
            still_loaded(object))
            continue;
        dp_store_relaxed(&object->retired, 1);
        moved = true;
    }
    if (moved && (dp_add_release(&generation, 1) + 1) % 65536 == 0) /* [RETIRE] */
        dp_add_release(&generation, 1);
}

/* Whether to look again: a check is under way, and it was not waited for long enough. */
static bool wait_for_check(uint32_t *word, int *waits)
{
    if (!(*word & CHECKING) || (*waits)++ >= CHECK_WAITS)
        return false;
    sched_yield();
    *word = dp_load_relaxed(&unload);
    return true;
}

void dp_objects_unload_begin(void)
{
    int saved = errno, waits = 0;
    uint32_t word = dp_load_relaxed(&unload);
    while (wait_for_check(&word, &waits) || !dp_cas_acquire(&unload, &word, word + 1))
        ;
    errno = saved;
}

void dp_objects_unload_end(void)
{
    int saved = errno, waits = 0;
    uint32_t word = dp_load_relaxed(&unload), next;
    do { /* the last one checks; so does one that was forgotten at a fork */
        next = word > 1 ? word - 1 : CHECKING | 1;
    } while (wait_for_check(&word, &waits) || !dp_cas_publish(&unload, &word, next));
    if (next & CHECKING && word <= 1) {
        check_all();
        dp_sub_release(&unload, CHECKING | 1); /* [UNLOAD] */
    }
    errno = saved;
}

void dp_objects_recheck(void)
{
    dp_objects_unload_begin();
    dp_objects_unload_end();
}

void dp_objects_fork_child(void)
{
    if (!dp_load_relaxed(&unload))
        return;
    dp_store_relaxed(&doubtful, 1);
    dp_store_relaxed(&generation, dp_load_relaxed(&generation) + 1 + (dp_load_relaxed(&generation) % 65536 == 65535));
    dp_store_relaxed(&unload, 0);
}

uint32_t dp_objects_generation(void)
{
    return dp_load_acquire(&generation); /* [RETIRE] */
}

bool dp_objects_unloading(void)
{
    return dp_load_acquire(&unload) != 0; /* [UNLOAD] */
}
