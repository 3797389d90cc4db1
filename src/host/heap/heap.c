/* SPDX-License-Identifier: MIT */
/*
 * host/heap/heap.c - the heap's hooks: record allocations and frees in counters.
 *
 *     sample_begin   guards the countdown, decides, fixes the weight       -> thread, sample
 *     sample_end     walks, finds the record, adds, remembers the block    -> unwind, store, live_blocks
 *     free_sampled   takes the block back and adds its free                -> live_blocks, table
 *
 * Rules
 * 1. An alloc is added before its block enters live_blocks, and a free after its entry was taken. So a thread that
 *    finds the entry (acquire, [ENTRY] in live_blocks.c) finds the alloc counted, and no reader sees a negative in-use
 *    value.
 * 2. A free subtracts the same two numbers that its sample added; they are kept in the entry.
 * 3. Hooks, and all functions that they call, do not allocate, lock, wait, log or change errno.
 * 4. Signal handlers find the thread guarded from begin's stores on, so their allocs on the same stack are no events.
 * Their frees work, because every structure is valid between any two instructions. If a handler runs between the inline
 * load of the countdown and its store, its bytes are not subtracted: a few bytes of a distance that is random anyway.
 * 5. The countdown is restored last, after all work of the event.
 */
#include "host/heap/heap.h"

#include "base/clock.h"
#include "host/table/event_ring.h"
#include "host/thread/gate.h"
#include "host/table/labels.h"
#include "host/heap/open_sample.h"
#include "host/heap/otel_probes.h"
#include "host/heap/sample_page.h"
#include "host/heap/lifetime.h"
#include "host/heap/peak.h"
#include "host/heap/inherited.h"
#include "host/table/record.h"
#include "host/thread/thread.h"
#include "host/unwind/unwind.h"

#include <deltaprof/heap.h>

#define REARM_BYTES ((int64_t)1 << 20)  /* while the profiler is off: bytes between two checks whether it is on */
#define REARM_LEAST (REARM_BYTES / 256) /* the same in a process that listens for commands and allocates little */
#define REARM_NS    40000000            /* such a process checks about that often */

static _Atomic int64_t heap_rate; /* 0: off */
static _Atomic bool watches_commands;
static _Atomic int64_t rearmed_ns; /* when a thread of such a process last checked; a number, so relaxed */

/* ---- the thread's countdown ---- */

/*
 * The distance to the next check: from 4 KiB, which any activity allocates soon, to 1 MiB, which costs nothing. It
 * grows if the last check of any thread was a moment ago, and shrinks if it was long ago.
 */
static int64_t rearm_bytes(const struct dp_thread *thread)
{
    if (!dp_load_relaxed(&watches_commands))
        return REARM_BYTES;
    int64_t now_ns = dp_clock_coarse_ns(), since_ns = now_ns - dp_load_relaxed(&rearmed_ns);
    int64_t bytes = thread->armed && !thread->rate ? thread->drawn : 0;
    dp_store_relaxed(&rearmed_ns, now_ns);
    if (since_ns < REARM_NS / 4)
        bytes *= 4;
    else if (since_ns > REARM_NS)
        bytes /= 4;
    return bytes < REARM_LEAST ? REARM_LEAST : bytes > REARM_BYTES ? REARM_BYTES : bytes;
}

static int64_t draw(struct dp_thread *thread)
{
    int64_t rate = dp_record_is_ready() ? dp_load_relaxed(&heap_rate) : 0;
    thread->drawn = 1 + (rate ? dp_thread_sample_distance(&thread->random, rate) : rearm_bytes(thread));
    thread->rate = rate;
    thread->armed = 1;
    return thread->drawn;
}

/* begin for an event that may be a sample or not; the countdown is guarded, `left` is its old value. */
static __attribute__((noinline)) void begin_drawn(struct sample *sample, struct dp_thread *thread, int64_t left,
                                                  size_t n_bytes)
{
    uint64_t want = (uint64_t)n_bytes + (n_bytes == 0);
    dp_thread_set_up(thread);
    if (n_bytes >= DP_BYTES_MAX) { /* the next event draws a distance, whether it comes in the real call or after it */
        sample->rest = -1;
        dp_thread_undraw(thread);
        return;
    }
    if (!thread->armed)
        left = draw(thread);
    if (want >= (uint64_t)left) {
        dp_tally_add(DP_TALLY_BYTES, dp_thread_shard(thread), thread->drawn - left + (int64_t)n_bytes);
        if (!thread->rate) { /* the profiler was off: a new distance begins with this event */
            left = draw(thread);
            thread->drawn -= (int64_t)n_bytes;
        }
    }
    sample->rest = left - (int64_t)want;
    if (want < (uint64_t)left)
        return;
    sample->rest = -1;
    if (!thread->rate || !dp_load_relaxed(&heap_rate))
        return;
    sample->weight = dp_thread_sample_weight(&thread->random, n_bytes, thread->rate);
    sample->bytes = sample->weight * (uint64_t)n_bytes;
}

/* Guards the thread for the caller's frame, in which the sample lies, and fills rest and weight. */
static inline void begin(struct sample *sample, uint32_t heap, size_t n_bytes)
{
    struct dp_thread *thread = dp_thread_self();
    int64_t left = thread->countdown;
    sample->heap = (uint8_t)heap;
    sample->weight = 0;
    sample->claimed = false;
    sample->n_skipped = 0;
    sample->muted = left == 0 && thread->guard != 0;
    sample->bytes = n_bytes;
    if (sample->muted)
        return;
    dp_thread_guard(thread, (uintptr_t)sample);
    dp_fence_signal();
    if (thread->rate != 1 || dp_load_relaxed(&heap_rate) != 1 || n_bytes >= DP_BYTES_MAX) {
        begin_drawn(sample, thread, left, n_bytes);
        return;
    }
    /* Every event is sampled, now and when the distance was drawn: that was 1, and so is the next. */
    dp_tally_add(DP_TALLY_BYTES, dp_thread_shard(thread), (int64_t)n_bytes);
    sample->rest = 1;
    sample->weight = 1;
}

/* Whether a muted event was nested in another, and is none. If the other is gone, this one begins now. */
static __attribute__((noinline, cold)) bool is_nested(struct sample *sample, const void *ptr,
                                                      const struct deltaprof_site *site)
{
    if (dp_thread_is_nested(dp_thread_self(), site->sp)) {
        dp_heap_page_given(ptr);
        return true;
    }
    begin(sample, sample->heap, sample->bytes);
    return sample->muted;
}

/* Restores the countdown. */
static void finish(struct sample *sample)
{
    struct dp_thread *thread = dp_thread_self();
    int64_t rest = sample->rest < 1 ? draw(thread) : sample->rest;
    thread->page = DP_SAMPLE_PAGE_NONE;
    dp_fence_signal();
    thread->countdown = rest;
}

/* ---- recording ---- */

/* What a free counts beside its record. False: its record is the parent's. */
static __attribute__((noinline, cold)) bool note_free(const struct dp_heap_live_block *entry, int64_t bytes)
{
    if (!dp_record_may_free())
        return false;
    uint32_t epoch = dp_record_epoch();
    if (epoch && dp_heap_inherited_is_own(entry, epoch))
        dp_heap_inherited_add_own_free(entry->record, entry->objects, bytes);
    dp_heap_lifetime_ended(entry);
    return true;
}

/* What an alloc leaves beside its record. */
static __attribute__((noinline, cold)) void note_alloc(struct dp_heap_live_block *entry)
{
    dp_heap_lifetime_began(entry->record, entry->objects, entry->bytes);
    dp_heap_inherited_mark(entry, dp_record_epoch());
}

/* The block of this key is not tracked any more, or could not be: takes its values off again. */
static inline void untrack(uintptr_t key, const struct dp_heap_live_block *entry)
{
    dp_thread_gate_remove(key);
    dp_heap_probe_free(key);
    int64_t bytes = dp_heap_inherited_bytes(entry);
    if (dp_record_is_marked() && !note_free(entry, bytes)) /* before the free is counted in its record */
        return;
    dp_table_add_free(DP_KIND_HEAP, entry->record, entry->objects, bytes);
    unsigned shard = dp_thread_shard(dp_thread_self());
    dp_tally_add(DP_TALLY_LIVE, shard, -1);
    dp_heap_peak_subtract(shard, bytes);
}

/* Removes the first frames; at least one stays. */
static __attribute__((noinline, cold)) void skip_frames(struct dp_stack *stack, uint32_t n_frames)
{
    uint32_t n = n_frames < stack->depth ? n_frames : stack->depth - 1;
    stack->frames += n;
    stack->depth -= n;
    stack->hash = dp_stack_hash(stack->frames, stack->depth);
    stack->known = NULL;
}

/* Code whose frames are left out at the leaf end, and what was found behind it. */
struct outside {
    const struct deltaprof_code *ranges; /* sorted */
    size_t n_ranges;
    uintptr_t pc; /* in the code of the first frame that stayed; 0: it has none */
};

static bool is_inside(const struct outside *outside, uintptr_t pc)
{
    size_t from = 0, to = outside->n_ranges;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (outside->ranges[middle].end <= pc)
            from = middle + 1;
        else
            to = middle;
    }
    return from < outside->n_ranges && outside->ranges[from].start <= pc;
}

static __attribute__((noinline, cold)) void skip_code(struct dp_stack *stack, struct outside *outside)
{
    uint32_t n = 0;
    const struct dp_frame *frame = dp_frame_get(stack->frames[0]);
    while (n + 1 < stack->depth && frame->type == DP_FRAME_CODE && is_inside(outside, frame->pc))
        frame = dp_frame_get(stack->frames[++n]);
    outside->pc = frame->type == DP_FRAME_CODE ? frame->pc : 0;
    if (n)
        skip_frames(stack, n);
}

/* Remembers the block, which exists now. */
static inline void track(struct sample *sample, const void *ptr, const struct deltaprof_site *site,
                         struct outside *outside)
{
    struct dp_heap_live_block entry, stale; /* the table stores the time of allocation */
    struct dp_stack stack;
    entry.objects = sample->weight;
    entry.bytes = sample->bytes;
    uintptr_t key = DELTAPROF_KEY(dp_heap_page_is_given(ptr) ? 0 : sample->heap, ptr);
    dp_thread_self()->guard |= DP_GUARD_BUSY;
    struct dp_heap_live_place place = dp_heap_live_blocks_prefetch(key);
    bool borrowed = dp_thread_borrow();
    dp_unwind_walk(DP_KIND_HEAP, dp_thread_scratch(), site, &stack);
    if (__builtin_expect(sample->n_skipped, 0))
        skip_frames(&stack, sample->n_skipped);
    if (__builtin_expect(outside != NULL, 0))
        skip_code(&stack, outside);
    unsigned shard = dp_thread_shard(dp_thread_self());
    bool added = dp_record_find(DP_KIND_HEAP, sample->heap, dp_labels_now(&stack), &stack, &entry.record);
    dp_thread_return(borrowed);
    if (!added)
        return;
    dp_table_add(DP_KIND_HEAP, entry.record, entry.objects, (int64_t)entry.bytes);
    if (dp_record_is_marked())
        note_alloc(&entry);
    dp_thread_gate_add(key);
    bool kept = dp_heap_live_blocks_insert_at(place, key, &entry, &stale);
    dp_tally_add(DP_TALLY_SAMPLES, shard, 1);
    dp_tally_add(DP_TALLY_LIVE, shard, 1);
    dp_heap_peak_add(shard, (int64_t)sample->bytes);
    dp_events_add(DP_KIND_HEAP, entry.record, sample->weight, (int64_t)sample->bytes, 0, 0);
    if (stale.objects)
        untrack(key, &stale);
    dp_heap_probe_alloc(key, sample->weight, sample->bytes);
    if (!kept) {
        entry.born_ns = 0;
        untrack(key, &entry);
        dp_stats_add(DP_STAT_LIVE_FULL, 1);
    }
}

/* Takes back what begin counted: the call failed, so nothing was allocated. */
static __attribute__((noinline, cold)) void uncount(const struct sample *sample)
{
    uint64_t n_bytes = sample->weight ? sample->bytes / sample->weight : sample->bytes;
    bool counted = sample->weight || (sample->rest < 1 && n_bytes < DP_BYTES_MAX);
    if (counted)
        dp_tally_add(DP_TALLY_BYTES, dp_thread_shard(dp_thread_self()), -(int64_t)n_bytes);
}

/* Ends an event: remembers the block of a sample, and restores the countdown. ptr NULL: there is no block. */
static __attribute__((noinline)) void end(struct sample *sample, const void *ptr, const struct deltaprof_site *site,
                                          struct outside *outside)
{
    if (__builtin_expect(sample->muted, 0) && is_nested(sample, ptr, site))
        return;
    if (__builtin_expect(!ptr, 0))
        uncount(sample);
    else if (sample->weight)
        track(sample, ptr, site, outside);
    finish(sample);
}

/* ---- heap.h, of the public headers ---- */

void deltaprof_sample_begin(struct deltaprof_sample *opaque, uint32_t heap, size_t n_bytes)
{
    begin((struct sample *)opaque, heap, n_bytes);
}

void deltaprof_sample_end(struct deltaprof_sample *opaque, const void *ptr, const struct deltaprof_site *site)
{
    end((struct sample *)opaque, ptr, site, NULL);
}

void deltaprof_sample_skip_frames(struct deltaprof_sample *opaque, unsigned n_frames)
{
    ((struct sample *)opaque)->n_skipped = (uint8_t)(n_frames < UINT8_MAX ? n_frames : UINT8_MAX);
}

__attribute__((noinline)) void deltaprof_alloc_sampled(uint32_t heap, const void *ptr, size_t n_bytes)
{
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct sample sample;
    begin(&sample, heap, n_bytes);
    end(&sample, ptr, &site, NULL);
}

uintptr_t deltaprof_alloc_sampled_outside(uint32_t heap, const void *ptr, size_t n_bytes,
                                          const struct deltaprof_site *site, const struct deltaprof_code *ranges,
                                          size_t n_ranges)
{
    struct sample sample;
    struct outside outside = {ranges, n_ranges, 0};
    begin(&sample, heap, n_bytes);
    end(&sample, ptr, site, &outside);
    return outside.pc;
}

void deltaprof_free_sampled(uint32_t heap, const void *ptr)
{
    struct dp_heap_live_block entry;
    uintptr_t key = DELTAPROF_KEY(heap, ptr);
    if (dp_heap_live_blocks_remove(key, &entry))
        untrack(key, &entry);
}

void deltaprof_heap_free_all(uint32_t heap)
{
    struct dp_heap_live_block entry;
    uint32_t at = 0;
    while (heap && dp_heap_live_blocks_remove_next(&at, heap, &entry))
        untrack(DELTAPROF_KEY(heap, NULL), &entry);
}

static bool claim(struct sample *sample, uint32_t heap, const void *old)
{
    sample->old = DELTAPROF_KEY(heap, old);
    return deltaprof_may_be_live(heap, old) && dp_heap_live_blocks_claim(sample->old, &sample->entry, &sample->slot);
}

void deltaprof_realloc_begin(struct deltaprof_sample *opaque, uint32_t heap, const void *old, size_t n_bytes)
{
    struct sample *sample = (struct sample *)opaque;
    begin(sample, heap, n_bytes);
    sample->claimed =
        claim(sample, heap, old) || (heap && heap == dp_load_relaxed(&dp_thread_gate_heap) && claim(sample, 0, old));
}

void deltaprof_realloc_end(struct deltaprof_sample *opaque, bool done, const void *ptr,
                           const struct deltaprof_site *site)
{
    struct sample *sample = (struct sample *)opaque;
    if (sample->claimed && done) {
        if (dp_record_is_marked() && ptr && (uintptr_t)ptr != sample->old << 8 >> 8)
            dp_heap_lifetime_moved(sample->old, &sample->entry);
        untrack(sample->old, &sample->entry);
        dp_heap_live_blocks_drop(sample->slot);
    } else if (sample->claimed) {
        dp_heap_live_blocks_unclaim(sample->old, sample->slot);
    }
    end(sample, done ? ptr : NULL, site, NULL);
}

void deltaprof_guard_reset(void)
{
    struct dp_thread *thread = dp_thread_self();
    if (!thread->ours && dp_thread_guarded(thread))
        dp_thread_undraw(thread);
}

void deltaprof_filter_mark(const void *start, size_t n_bytes)
{
    dp_heap_live_blocks_mark((uintptr_t)start, n_bytes);
    dp_thread_gate_mark((uintptr_t)start, n_bytes);
}

/* ---- heap.h ---- */

void dp_heap_tune(int64_t rate)
{
    if (rate > DP_RATE_MAX)
        rate = DP_RATE_MAX;
    if (rate == 1)
        dp_heap_live_blocks_raise_density();
    dp_thread_gate_tune_heap(rate);
    dp_store_relaxed(&heap_rate, rate);
}

void dp_heap_watch_commands(bool on)
{
    dp_store_relaxed(&watches_commands, on);
}

int64_t dp_heap_rate(void)
{
    return dp_load_relaxed(&heap_rate);
}

void dp_heap_rearm(void)
{
    struct dp_thread *thread = dp_thread_self();
    dp_heap_flush_bytes();
    if (!dp_thread_guarded(thread))
        dp_thread_undraw(thread);
}

void dp_heap_flush_bytes(void)
{
    struct dp_thread *thread = dp_thread_self();
    int64_t left = thread->countdown;
    if (!thread->armed || left == 0 || left >= thread->drawn)
        return;
    dp_tally_add(DP_TALLY_BYTES, dp_thread_shard(thread), thread->drawn - left);
    thread->drawn = left;
}

uint64_t dp_heap_bytes_seen(void)
{
    return (uint64_t)dp_tally_read(DP_TALLY_BYTES);
}
