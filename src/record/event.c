/* SPDX-License-Identifier: MIT */
/*
 * record/event.c - the hot corridor: from a hook's call to a counter.
 *
 *     sample_begin   guards the countdown, decides, fixes the weight             -> thread, sample
 *     sample_end     walks, finds the record, adds, remembers the block    -> unwind, table, live
 *     forget         takes the block back and adds its free                -> live, table
 *
 * Rules
 * 1. An alloc is added before its block enters the live set, and a free after its entry was taken: whoever finds the
 *    entry (acquire, [ENTRY] in live_blocks.c) finds the alloc counted. So in-use is never negative, whatever a reader
 * sees.
 * 2. What a sample added and what its free gives back are the same two numbers, kept in the entry.
 * 3. Below the waterline nothing allocates, locks, waits, logs or touches errno; every helper called here keeps to it.
 * 4. Signal handlers: they find the countdown guarded from begin's store on, so their allocs fall through; their frees
 * work, because every structure is valid between any two instructions. A handler between the inline load of the word
 * and its store may have its own bytes forgotten: a few bytes of a distance that is random anyway.
 * 5. The word is set last. Nothing after it belongs to the event.
 *
 * A child's zero (fork). The counters go on in the child as they stood, so that frees of inherited blocks have
 * something to subtract from. What its consumers subtract is a copy of (n, v) taken before its first own event is
 * added: `zero` goes OWN -> (fork) -> WANTED -> COPYING -> OWN. The copy is made by the first event or report, not by
 * the fork handler, because most children exec. Events of other threads during the copy would land on one side of it by
 * chance, so they let the copier go first: they give the processor up, FORK_YIELDS times at most (it may be preempted,
 * and of lower priority for ever), and are then not recorded and counted as FORK_RACES. Frees go on, they are no part
 * of the zero. [ZERO]: the copy is published with release; else a report could subtract a base that is half the last
 * one's.
 */
#include "record/event.h"

#include "base/mem.h"
#include "record/inherited.h"
#include "record/thread.h"
#include "record/wait.h"
#include "unwind/unwind.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#define REARM_BYTES ((int64_t)1 << 20) /* between two looks at a profiler that is off */

enum { OWN, WANTED, COPYING };
enum { FORK_YIELDS = 10000 };

static struct {
    _Atomic int64_t heap_rate; /* 0: off */
    _Atomic uint32_t ready;    /* tables are there */
    _Atomic uint32_t zero;
    _Atomic uint32_t epoch;
} record;

/* What deltaprof_sample holds between begin and end. */
struct __attribute__((may_alias)) sample {
    int64_t rest; /* the word after this event; below 0: draw a new distance */
    uint64_t bytes;
    uint32_t weight; /* 0: not a sample */
    uint8_t heap;
    bool claimed;
    uint32_t slot;
    uintptr_t old; /* key of the claimed entry */
    struct dp_live_block entry;
};
_Static_assert(sizeof(struct sample) <= sizeof(struct deltaprof_sample), "hooks.h reserves it");

/* ---- the thread's countdown ---- */

static int64_t draw(struct dp_thread *thread)
{
    int64_t rate = dp_load_acquire(&record.ready) /* [READY] */ ? dp_load_relaxed(&record.heap_rate) : 0;
    thread->rate = rate;
    thread->drawn = rate ? dp_sample_distance(&thread->random, rate) : REARM_BYTES;
    thread->armed = 1;
    return thread->drawn;
}

/* begin for an event that may be a sample or not, with the countdown guarded and `left` what it said. */
static __attribute__((noinline)) void begin_drawn(struct sample *sample, struct dp_thread *thread, int64_t left,
                                                  size_t n_bytes)
{
    uint64_t want = (uint64_t)n_bytes + (n_bytes == 0);
    dp_thread_set_up(thread);
    if (n_bytes >= DP_BYTES_MAX) { /* the next event draws a distance, in the call, after it, or after its exception */
        sample->rest = -1;
        thread->armed = 0;
        dp_fence_signal();
        thread->countdown = 0;
        return;
    }
    if (!thread->armed)
        left = draw(thread);
    if (want > (uint64_t)left) {
        dp_tally_add(DP_TALLY_BYTES, dp_thread_shard(thread), thread->drawn - left + (int64_t)n_bytes);
        if (!thread->rate) { /* it was off: this event is the first of a new distance */
            left = draw(thread);
            thread->drawn -= (int64_t)n_bytes;
        }
    }
    sample->rest = left - (int64_t)want;
    if (want <= (uint64_t)left)
        return;
    sample->rest = -1;
    if (!thread->rate || !dp_load_relaxed(&record.heap_rate))
        return;
    sample->weight = dp_sample_weight(&thread->random, n_bytes, thread->rate);
    sample->bytes = sample->weight * (uint64_t)n_bytes;
}

/* Guards the countdown and fills rest and weight. Nothing is due under the guard. */
static inline void begin(struct sample *sample, uint32_t heap, size_t n_bytes)
{
    struct dp_thread *thread = dp_thread_self();
    int64_t left = thread->countdown;
    sample->heap = (uint8_t)heap;
    sample->weight = 0;
    sample->claimed = false;
    if (left >= DP_GUARDED_FLOOR) {
        sample->rest = left;
        return;
    }
    thread->countdown = DELTAPROF_GUARDED;
    dp_fence_signal();
    if (thread->rate != 1 || dp_load_relaxed(&record.heap_rate) != 1 || n_bytes >= DP_BYTES_MAX) {
        begin_drawn(sample, thread, left, n_bytes);
        return;
    }
    /* Every event, now and when the distance was drawn: it was 0, and so is the next. */
    dp_tally_add(DP_TALLY_BYTES, dp_thread_shard(thread), (int64_t)n_bytes);
    sample->rest = 0;
    sample->weight = 1;
    sample->bytes = n_bytes;
}

/* Restores the countdown. */
static void finish(struct sample *sample)
{
    struct dp_thread *thread = dp_thread_self();
    int64_t rest = sample->rest < 0 ? draw(thread) : sample->rest;
    dp_fence_signal();
    thread->countdown = rest;
}

/* ---- recording ---- */

bool dp_record_fork_copy_zero(void)
{
    uint32_t state = dp_load_acquire(&record.zero); /* [ZERO] */
    if (__builtin_expect(state == OWN, 1))
        return true;
    if (state != WANTED || !dp_cas_acquire(&record.zero, &state, COPYING))
        return false;
    dp_table_set_base();
    dp_inherited_begin();
    dp_store_release(&record.zero, OWN); /* [ZERO] */
    return true;
}

static __attribute__((noinline, cold)) bool settled_soon(void)
{
    for (int i = 0; i < FORK_YIELDS; i++) {
        sched_yield();
        if (dp_record_fork_copy_zero())
            return true;
    }
    return false;
}

bool dp_record_add(unsigned kind, uint8_t heap, uint32_t labels, const struct dp_stack *stack, int64_t n, int64_t v,
                   dp_record_id *id)
{
    if (!dp_load_acquire(&record.ready)) /* [READY] */
        return false;
    if (__builtin_expect(!dp_record_fork_copy_zero(), 0) && !settled_soon()) {
        dp_stats_add(DP_STAT_FORK_RACES, 1);
        return false;
    }
    *id = dp_table_intern(kind, heap, labels, stack);
    dp_table_add(kind, *id, n, v);
    dp_tally_add(DP_TALLY_SAMPLES, dp_thread_shard(dp_thread_self()), 1);
    return true;
}

static void give_back(const struct dp_live_block *entry)
{
    int64_t bytes = dp_inherited_forget(entry, dp_load_relaxed(&record.epoch));
    dp_table_add_free(DP_KIND_HEAP, entry->record, entry->objects, bytes);
    dp_tally_add(DP_TALLY_LIVE, dp_thread_shard(dp_thread_self()), -1);
}

/* The block exists. */
static void keep(struct sample *sample, const void *ptr, const struct deltaprof_site *site)
{
    struct dp_live_block entry = {.objects = sample->weight, .bytes = sample->bytes}, stale;
    struct dp_stack stack;
    uintptr_t key = DELTAPROF_KEY(sample->heap, ptr);
    dp_live_blocks_prefetch(key);
    bool held = dp_thread_hold();
    dp_unwind_walk(dp_thread_scratch(), site, &stack);
    bool added =
        dp_record_add(DP_KIND_HEAP, sample->heap, 0, &stack, entry.objects, (int64_t)entry.bytes, &entry.record);
    dp_thread_let_go(held);
    if (!added)
        return;
    dp_inherited_mark(&entry, dp_load_relaxed(&record.epoch));
    bool kept = dp_live_blocks_insert(key, &entry, &stale);
    dp_tally_add(DP_TALLY_LIVE, dp_thread_shard(dp_thread_self()), 1);
    if (stale.objects)
        give_back(&stale);
    if (!kept) {
        give_back(&entry);
        dp_stats_add(DP_STAT_LIVE_FULL, 1);
    }
}

/* ---- hooks.h ---- */

void deltaprof_sample_begin(struct deltaprof_sample *opaque, uint32_t heap, size_t n_bytes)
{
    begin((struct sample *)opaque, heap, n_bytes);
}

void deltaprof_sample_end(struct deltaprof_sample *opaque, const void *ptr, const struct deltaprof_site *site)
{
    struct sample *sample = (struct sample *)opaque;
    if (sample->weight && ptr)
        keep(sample, ptr, site);
    finish(sample);
}

__attribute__((noinline)) void deltaprof_alloc_sampled(uint32_t heap, const void *ptr, size_t n_bytes)
{
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct sample sample;
    begin(&sample, heap, n_bytes);
    if (sample.weight && ptr)
        keep(&sample, ptr, &site);
    finish(&sample);
}

void deltaprof_free_sampled(uint32_t heap, const void *ptr)
{
    struct dp_live_block entry;
    if (dp_live_blocks_remove(DELTAPROF_KEY(heap, ptr), &entry))
        give_back(&entry);
}

void deltaprof_realloc_begin(struct deltaprof_sample *opaque, uint32_t heap, const void *old, size_t n_bytes)
{
    struct sample *sample = (struct sample *)opaque;
    begin(sample, heap, n_bytes);
    sample->old = DELTAPROF_KEY(heap, old);
    sample->claimed =
        deltaprof_may_be_live(heap, old) && dp_live_blocks_claim(sample->old, &sample->entry, &sample->slot);
}

void deltaprof_realloc_end(struct deltaprof_sample *opaque, bool done, const void *ptr,
                           const struct deltaprof_site *site)
{
    struct sample *sample = (struct sample *)opaque;
    if (sample->claimed && done) {
        give_back(&sample->entry);
        dp_live_blocks_drop(sample->slot);
    } else if (sample->claimed) {
        dp_live_blocks_unclaim(sample->old, sample->slot);
    }
    if (sample->weight && done && ptr)
        keep(sample, ptr, site);
    finish(sample);
}

void deltaprof_guard_reset(void)
{
    struct dp_thread *thread = dp_thread_self();
    if (thread->ours || !dp_thread_guarded(thread))
        return;
    thread->armed = 0;
    dp_fence_signal();
    thread->countdown = 0;
}

void deltaprof_filter_mark(const void *start, size_t n_bytes)
{
    dp_live_blocks_mark((uintptr_t)start, n_bytes);
}

/* ---- event.h ---- */

int dp_record_init(const struct dp_config *conf)
{
    static bool begun; /* a second try after -ENOMEM would map twice */
    if (dp_load_acquire(&record.ready))
        return 0;
    if (begun)
        return -ENOMEM;
    begun = true;
    dp_mem_cap((size_t)conf->memory);
    size_t floor = (size_t)conf->memory / 10 * 6;
    int err = 0;
    dp_mem_reserve(floor);
    if ((err = dp_frames_init(floor / 100 * 7)) ||
        (err = dp_unwind_init(conf->unwind, (unsigned)conf->depth, floor / 100 * 6)) ||
        (err = dp_thread_init(dp_unwind_scratch_bytes(), floor / 100 * 7)) || (err = dp_table_init(floor / 100 * 54)) ||
        (err = dp_live_blocks_init(floor / 100 * 26)))
        return err;
    dp_wait_init();                     /* without its table holders stay unknown, no more */
    dp_store_release(&record.ready, 1); /* [READY]: a hook that sees it finds every table */
    return 0;
}

void dp_record_tune(const struct dp_config *conf, bool on)
{
    int64_t rate = conf->heap_rate < DP_RATE_MAX ? conf->heap_rate : DP_RATE_MAX;
    if (on && rate == 1)
        dp_live_blocks_crowd();
    dp_store_relaxed(&record.heap_rate, on && rate > 0 ? rate : 0);
    dp_wait_tune(conf, on);
}

int64_t dp_record_heap_rate(void)
{
    return dp_load_relaxed(&record.heap_rate);
}

uint32_t dp_record_epoch(void)
{
    return dp_load_relaxed(&record.epoch);
}

void dp_record_fork_prepare(void)
{
    dp_unwind_fork_prepare(dp_thread_scratch());
}

void dp_record_fork_parent(void)
{
    dp_unwind_fork_parent();
}

void dp_record_fork_child(void)
{
    dp_unwind_fork_child(dp_thread_scratch());
    uint32_t epoch = dp_load_relaxed(&record.epoch) + 1;
    dp_store_relaxed(&record.epoch, epoch);
    dp_store_relaxed(&record.zero, WANTED);
    dp_stats_reset();
    dp_live_blocks_fork_child();
    dp_table_fork_child();
    dp_wait_fork_child();
    dp_thread_fork_child((uint64_t)getpid() << 32 | epoch);
}

void dp_record_fork_base(unsigned kind, dp_record_id id, int64_t *n, int64_t *v)
{
    struct dp_table_base base = {0, 0};
    if (dp_load_relaxed(&record.epoch))
        dp_table_base(kind, id, &base);
    *n = base.n;
    *v = base.v;
}

void dp_record_rearm(void)
{
    struct dp_thread *thread = dp_thread_self();
    dp_record_flush_bytes();
    if (dp_thread_guarded(thread))
        return;
    thread->armed = 0;
    dp_fence_signal();
    thread->countdown = 0;
}

void dp_record_flush_bytes(void)
{
    struct dp_thread *thread = dp_thread_self();
    int64_t left = thread->countdown;
    if (!thread->armed || left >= thread->drawn)
        return;
    dp_tally_add(DP_TALLY_BYTES, dp_thread_shard(thread), thread->drawn - left);
    thread->drawn = left;
}

uint64_t dp_record_bytes_seen(void)
{
    return (uint64_t)dp_tally_read(DP_TALLY_BYTES);
}

void dp_record_stats(struct deltaprof_stats *stats)
{
    stats->samples = dp_stats_read(DP_STAT_SAMPLES);
    stats->records = 0;
    for (unsigned kind = 0; kind < DP_KINDS; kind++)
        stats->records += dp_table_count(kind) > 1 ? dp_table_count(kind) - 1 : 0;
    stats->live = (uint64_t)dp_tally_read(DP_TALLY_LIVE);
    stats->memory_bytes = dp_mem_used();
    stats->overflow = dp_stats_read(DP_STAT_OVERFLOW);
    stats->live_full = dp_stats_read(DP_STAT_LIVE_FULL);
    stats->stacks_cut = dp_stats_read(DP_STAT_STACKS_CUT);
    stats->stacks_deep = dp_stats_read(DP_STAT_STACKS_DEEP);
    stats->stacks_none = dp_stats_read(DP_STAT_STACKS_NONE);
    stats->locks_full = dp_stats_read(DP_STAT_LOCKS_FULL);
    stats->frames_full = dp_stats_read(DP_STAT_FRAMES_FULL);
}
