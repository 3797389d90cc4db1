/* SPDX-License-Identifier: MIT */
/*
 * host/objects/frames.c - the table of frames: dense ids, and an index from (type, object, address) to the id.
 *
 * States of an index slot: 0 -> id, once, by [FRAME]. A frame's words are written before its id is published and never
 * change afterwards. Two threads that meet the same new frame may both take an id; one of them publishes it, the other
 * id stays an unused duplicate. No thread waits for another: a thread that is stopped between taking an id and
 * publishing it wastes that id.
 *
 * Bounds: an id is taken only below the capacity, the index is at most 5/8 full, and a probe looks at PROBES slots;
 * beyond that the table counts as full.
 *
 * The index has two parts. A frame has a group of GROUP slots in the small one, which is two pages: a forked worker
 * that meets a hundred new frames would otherwise touch a hundred pages, and the kernel would copy or clear each. A
 * frame that finds its group full of others stands in the large part. Slots never become empty again, so a frame that
 * is in the large part is never entered in the small one.
 *
 * [FRAME] the id is stored with release and found with acquire. Without the pair a finder could compare, and a report
 * could print, words that are not written yet.
 */
#include "host/objects/frames.h"

#include "base/hash.h"
#include "base/mem.h"
#include "host/objects/functions.h"
#include "host/objects/ids.h"
#include "host/objects/objects.h"
#include "host/shared/shared.h"

#include <errno.h>

enum { PROBES = 128, SMALL_SLOTS = 2048, GROUP = 8 };

struct index {
    _Atomic uint32_t *slots; /* NULL: there is no such part */
    uint32_t mask;
};

static struct dp_frame *frames;
static struct dp_shared_array *shared;
static struct index small, large;
static uint32_t capacity;
static _Atomic uint32_t next_id;

static const char *const synthetic_names[DP_FRAME_FIRST_REAL] = {
    [DP_FRAME_OVERFLOW] = "[overflow]",
    [DP_FRAME_HAND_OVER] = "[hand-over]",
    [DP_FRAME_UNKNOWN_HOLDER] = "[unknown holder]",
    [DP_FRAME_TRUNCATED] = "[truncated]",
    [DP_FRAME_OTHER] = "[other]",
    [DP_FRAME_NO_STACK] = "[no stack]",
    [DP_FRAME_BETWEEN] = "[between samples]",
    [DP_FRAME_MASKED] = "[masked]",
    [DP_FRAME_NOT_WALKED] = "[not walked]",
    [DP_FRAME_PROFILER] = "[deltaprof]",
    [DP_FRAME_HELD_BY] = "[held by]",
    [DP_FRAME_UNKNOWN_WAITER] = "[unknown waiter]",
    [DP_FRAME_STATE_UNKNOWN] = "[state unknown]",
};

const char *dp_frame_synthetic_name(dp_frame_id id)
{
    return id < DP_FRAME_FIRST_REAL ? synthetic_names[id] : NULL;
}

int dp_frames_init(size_t budget_bytes)
{
    int err = dp_objects_init(budget_bytes / 4);
    if (err)
        return err;
    size_t room = budget_bytes - budget_bytes / 4;
    uint32_t n_slots = 1024;
    while (n_slots < (1u << 30) && (size_t)n_slots * 2 * (sizeof(uint32_t) + sizeof *frames / 2) <= room)
        n_slots *= 2;
    size_t fit = (room - n_slots * sizeof(uint32_t)) / sizeof *frames, most = (size_t)n_slots / 8 * 5;
    capacity = room < n_slots * sizeof(uint32_t) ? n_slots / 2 : (uint32_t)(fit < most ? fit : most);
    _Atomic uint32_t *slots = dp_mem_table(n_slots * sizeof *slots);
    if (!slots || dp_shared_array_init(DP_ARRAY_FRAMES, sizeof *frames, capacity, capacity, 1))
        return -ENOMEM;
    frames = dp_shared_at(DP_ARRAY_FRAMES);
    shared = dp_shared_array(DP_ARRAY_FRAMES);
    shared->used = &next_id;
    if (n_slots >= 8 * SMALL_SLOTS) /* a smaller one has few pages */
        small = (struct index){dp_mem_table(SMALL_SLOTS * sizeof *slots), SMALL_SLOTS - 1};
    large = (struct index){slots, n_slots - 1};
    for (uint32_t id = 0; id < DP_FRAME_FIRST_REAL; id++)
        frames[id] = (struct dp_frame){.pc = id, .type = DP_FRAME_SYNTHETIC};
    dp_store_release(&next_id, DP_FRAME_FIRST_REAL);
    return 0;
}

static uint64_t hash_of(uint32_t type, dp_object_id object, uint64_t pc)
{
    return dp_hash_mix(pc + ((uint64_t)type << 63) + object * 0x9E3779B97F4A7C15u);
}

static bool is(dp_frame_id id, const struct dp_frame *frame)
{
    const struct dp_frame *known = &frames[id];
    return known->pc == frame->pc && known->object == frame->object && known->type == frame->type;
}

/*
 * Looks at n_slots from `at` on in one part of the index. mine: enters the frame where a slot is empty, as *mine, an id
 * that is taken first. 0: neither found nor entered.
 */
static dp_frame_id search(const struct index *in, uint64_t at, uint32_t n_slots, const struct dp_frame *frame,
                          dp_frame_id *mine)
{
    for (uint32_t i = 0; in->slots && i < n_slots; i++) {
        _Atomic uint32_t *slot = &in->slots[(at + i) & in->mask];
        uint32_t id = dp_load_acquire(slot); /* [FRAME] */
        if (!id) {
            if (!mine)
                return 0;
            if (!*mine) {
                *mine = dp_id_next(&next_id, capacity);
                if (!*mine || !dp_shared_commit(shared, *mine + 1))
                    return 0;
                if (frame->type == DP_FRAME_NAMED)
                    dp_function_publish((uint32_t)(frame->pc >> 32));
                frames[*mine] = *frame;
            }
            if (dp_cas_publish(slot, &id, *mine)) /* [FRAME] */
                return *mine;
        }
        if (is(id, frame))
            return id;
    }
    return 0;
}

static dp_frame_id search_both(const struct dp_frame *frame, dp_frame_id *mine)
{
    uint64_t hash = hash_of(frame->type, frame->object, frame->pc);
    dp_frame_id id = search(&small, hash & ~(uint64_t)(GROUP - 1), GROUP, frame, mine);
    return id ? id : search(&large, hash, PROBES, frame, mine);
}

static dp_frame_id intern(uint32_t type, dp_object_id object, uint64_t pc)
{
    const struct dp_frame frame = {.pc = pc, .object = object, .type = type};
    dp_frame_id mine = 0;
    return search_both(&frame, &mine); /* 0 without slots: records.h is also used without the hooks */
}

static dp_frame_id find(dp_object_id object, uintptr_t pc)
{
    const struct dp_frame frame = {.pc = pc, .object = object, .type = DP_FRAME_CODE};
    return search_both(&frame, NULL);
}

/*
 * The loader is not asked, because pc may be any value. Of two objects that had the same range the younger one is used.
 */
dp_frame_id dp_frame_find(uintptr_t lookup_pc)
{
    if (!large.slots)
        return 0;
    for (dp_object_id object = dp_objects_count(); object-- > 1;) {
        const struct dp_object *o = dp_object_get(object);
        dp_frame_id id = lookup_pc >= o->start && lookup_pc < o->end ? find(object, lookup_pc) : 0;
        if (id)
            return id;
    }
    return find(0, lookup_pc);
}

dp_frame_id dp_frame_intern_in(dp_object_id object, uintptr_t lookup_pc)
{
    return intern(DP_FRAME_CODE, object, lookup_pc);
}

dp_frame_id dp_frame_intern(uintptr_t lookup_pc)
{
    return dp_frame_intern_in(dp_object_find(lookup_pc), lookup_pc);
}

dp_frame_id dp_frame_intern_named(uint64_t value)
{
    return intern(DP_FRAME_NAMED, 0, value);
}

dp_frame_id dp_frame_intern_data(uintptr_t address)
{
    dp_object_id object = dp_object_find(address);
    return object ? intern(DP_FRAME_DATA, object, address) : 0;
}

uint32_t dp_frames_count(void)
{
    uint32_t n = dp_load_acquire(&next_id), most = shared ? dp_load_relaxed(&shared->committed) : capacity;
    return n < most ? n : most;
}

uint32_t dp_frames_capacity(void)
{
    return capacity;
}

const struct dp_frame *dp_frame_get(dp_frame_id id)
{
    return &frames[id];
}

/* A variable lies in its object. */
static bool is_inside(const struct dp_frame *f)
{
    const struct dp_object *o = dp_object_get(f->object);
    return f->type != DP_FRAME_DATA || (f->pc >= o->start && f->pc < o->end);
}

bool dp_frames_adopt(uint32_t n)
{
    if (n < DP_FRAME_FIRST_REAL || n > capacity)
        return false;
    for (dp_frame_id id = DP_FRAME_FIRST_REAL; id < n; id++) {
        const struct dp_frame *f = &frames[id];
        bool is_named = f->type == DP_FRAME_NAMED, is_place = f->type == DP_FRAME_CODE || f->type == DP_FRAME_DATA;
        if ((is_named && !dp_function_is_valid((uint32_t)(f->pc >> 32))) ||
            (is_place && f->object && f->object >= dp_objects_count()) || (!is_named && !is_place))
            return false;
        if (is_place && f->object && !(dp_load_relaxed(&dp_object_get(f->object)->ready) && is_inside(f)))
            frames[id].object = 0;
    }
    dp_store_release(&next_id, n);
    return true;
}
