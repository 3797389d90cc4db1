/* SPDX-License-Identifier: MIT */
/*
 * record/thread.h - what the library knows about the calling thread: the whole of struct deltaprof_thread, and its
 * block of scratch memory.
 */
#pragma once

#include "base/stats.h"
#include "record/sample.h"

#include <deltaprof/hooks.h>

enum { DP_THREAD_NEW, DP_THREAD_SETTING_UP, DP_THREAD_READY, DP_THREAD_ENDED };

/* Lies over deltaprof_thread; may_alias, because the hooks' inline functions know it by the other name. */
struct __attribute__((may_alias)) dp_thread {
    int64_t countdown;       /* deltaprof_thread.countdown */
    int64_t rate;            /* in force when the countdown was drawn; 0: the profiler was off */
    int64_t drawn;           /* the countdown as it was drawn */
    struct dp_random random; /* state 0: not seeded */
    void *scratch;           /* this thread's block, or one borrowed for this event, or NULL */
    uint8_t armed;           /* a distance was drawn */
    uint8_t state;
    uint8_t own;          /* 1 + number of the shard that nobody else writes; 0: none */
    uint8_t ours;         /* a thread of the profiler: holds the guard for life */
    uint32_t number;      /* spreads threads over the shared shards */
    uint32_t spare[3];    /* a record that lost its race, by kind (table.c) */
    uint32_t labels;      /* the label set that was pushed last (label_sets.h) */
    uint32_t labels_lost; /* pushes since then for which there was no room */
};
_Static_assert(sizeof(struct dp_thread) <= 128, "static TLS is scarce: dlopen fails when it runs out");
_Static_assert(sizeof(struct dp_thread) <= sizeof(struct deltaprof_thread), "one lies over the other");

/* From here up the countdown says "guarded". It falls by what is asked for under the guard, so a request that no
 * address space can meet, and that ends in an exception, is made without guarding. */
#define DP_GUARDED_FLOOR ((int64_t)1 << 62)
#define DP_BYTES_MAX     ((size_t)1 << 48)

static inline struct dp_thread *dp_thread_self(void)
{
    return (struct dp_thread *)&deltaprof_thread;
}

static inline bool dp_thread_guarded(const struct dp_thread *thread)
{
    return thread->countdown >= DP_GUARDED_FLOOR;
}

/* The shard that this thread adds to; below DP_SHARDS_OWN it is the only one that does. */
static inline unsigned dp_thread_shard(const struct dp_thread *thread)
{
    return thread->own ? thread->own - 1u : DP_SHARDS_OWN + thread->number % (DP_SHARDS - DP_SHARDS_OWN);
}

/* Maps the pool: blocks of block_bytes within budget_bytes, at least two. -ENOMEM: none. Context: init, once. */
int dp_thread_init(size_t block_bytes, size_t budget_bytes);

/* Seeds the thread's generator and gets it a block and a shard, where there are any left. Once a thread; cheap after.
 * Context: hook. */
void dp_thread_set_up_slow(struct dp_thread *thread);
static inline void dp_thread_set_up(struct dp_thread *thread)
{
    if (__builtin_expect(thread->state == DP_THREAD_NEW, 0))
        dp_thread_set_up_slow(thread);
}

/*
 * The block that a capture may write in: at least block_bytes, kept from one capture of this thread to the next, and
 * its first 64 bytes zero when it comes new. NULL: none is left, keep the leaf only. Context: hook, the countdown
 * guarded, between hold and let_go.
 */
static inline void *dp_thread_scratch(void)
{
    return dp_thread_self()->scratch;
}

/* Makes sure of a block for one event: the thread's own, else a borrowed one. Give the result to let_go after it. */
bool dp_thread_hold_slow(void);
static inline bool dp_thread_hold(void)
{
    return __builtin_expect(!dp_thread_self()->scratch, 0) && dp_thread_hold_slow();
}
void dp_thread_let_go_slow(void);
static inline void dp_thread_let_go(bool held)
{
    if (__builtin_expect(held, 0))
        dp_thread_let_go_slow();
}

/* 64 random bits, for decisions of this thread. Context: hook. */
uint64_t dp_thread_random(void);

/* The calling thread is the profiler's own: its countdown is guarded for good, and guard_reset leaves it so. */
void dp_thread_is_ours(void);

/*
 * In a forked child: the other threads' blocks are free again, and this thread's draws differ from its parent's. It
 * draws a distance at its next event: with the parent's countdown, all children of one parent would sample at the same
 * place. A distance has no memory, so a new one biases nothing. Only stores.
 */
void dp_thread_fork_child(uint64_t salt);
