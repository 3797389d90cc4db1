/* SPDX-License-Identifier: MIT */
/*
 * unwind/stack_cache.h - a thread's last stack, so that a new walk only visits what changed. stack_cache.c has the rule
 * and its proof. Context: hook, with the thread's countdown guarded; a stack cache belongs to one thread.
 */
#pragma once

#include "base/atomic.h"
#include "objects/reach.h"
#include "unwind/rule.h"
#include "unwind/stack.h"

/*
 * A frame's state, and its row of the unwind cache: rule and frame id. pc as it lies in memory; behind fp, as the two
 * lie in memory where a function keeps a frame pointer.
 */
struct dp_stack_cache_frame {
    uintptr_t fp, pc, sp;
    uint64_t value;
};

/*
 * Zeroed is a valid start. The stack of the last walk is the frames that this walk found, `pending`, and behind them
 * those that were there before, at places [at, b). There is room on both sides, for new leaves and for a walk that gets
 * further.
 */
struct dp_stack_cache {
    struct dp_own_stack own;
    uint32_t generation; /* that this walk works with; 0: something is being unloaded, nothing is remembered */
    uint32_t busy;       /* a walk is under way; found set at a begin: that walk was left by longjmp */
    uint32_t ended;      /* the last frame is the outermost one, by its rule */
    uint32_t inside;     /* libunwind is at work for this thread */
    struct dp_stack_cache_frame *frames; /* [0, 4 * depth], frames[b].sp is the highest address */
    uint32_t at, b;
    uint32_t bar;                 /* places before it may not be joined, nor may pending, if it is not `at` */
    uint32_t n_pending, n_barred; /* of pending the first n_barred may not be joined */
    uint64_t *sums;               /* [0, 4 * depth]: sums[i] - sums[j] is the hash of [i, j), times a power of B */
    uint32_t any;                 /* pairs or alone may have a bit */
    struct dp_stack_known known;  /* of the stack */
    uint64_t *pairs;              /* a bit a place: its fp is live, and came from the word below that of its pc */
    uint64_t *alone;              /* a bit a place: its fp is live, and came from another word */
    uint8_t *live;                /* its fp is used further rootward, or may be */
    dp_frame_id *ids;             /* of all frames, at places [at - n_pending, b) */
    struct dp_stack_cache_frame *stage;   /* [0, depth]: for the frames that this walk finds */
    struct dp_stack_cache_frame *pending; /* [0, depth]: those of the last walk, and then the one at `at` */
    dp_frame_id *stage_ids;               /* [0, depth) */
    dp_frame_id *others;                  /* [0, depth): a stack that is not remembered */
    uint64_t pending_hash;                /* the sum of id[i] * B^(n-1-i) over pending */
};

/* depth: most frames of a stack. Fills the tables of powers. -ENOMEM. Context: init. */
int dp_stack_cache_init(unsigned depth);
size_t dp_stack_cache_bytes(void);

/* Of begin, what a walk seldom needs. left: the last one was, by longjmp, between any two stores. */
void dp_stack_cache_begin_anew(struct dp_stack_cache *cache, uint32_t generation, bool left);

/*
 * Lays a zeroed block out, or finds it laid out; forgets what may not be used. generation 0: something is being
 * unloaded.
 */
static inline void dp_stack_cache_begin(struct dp_stack_cache *cache, uint32_t generation)
{
    bool left = cache->busy;
    cache->busy = 1;
    dp_fence_signal();
    if (__builtin_expect(left || !cache->frames || cache->generation != generation || !generation, 0))
        dp_stack_cache_begin_anew(cache, generation, left);
}

/* An end of a walk: what it left in the stack cache may be joined by the next. */
static inline void dp_stack_cache_end(struct dp_stack_cache *cache)
{
    dp_fence_signal();
    cache->busy = 0;
}

void dp_stack_cache_forget(struct dp_stack_cache *cache);

/* The last frame, counted from `at`, that the words in memory still lead to; all before `end`. */
uint32_t dp_stack_cache_verify(const struct dp_stack_cache *cache, uint32_t at, uint32_t end);

/* Gives pending frame i and those behind it places; returns that of i. The rest of pending is gone. */
uint32_t dp_stack_cache_settle_pending(struct dp_stack_cache *cache, uint32_t i);

static inline uint32_t dp_stack_cache_settle(struct dp_stack_cache *cache, uint32_t i)
{
    if (i != cache->n_pending)
        return dp_stack_cache_settle_pending(cache, i);
    if (cache->n_pending) /* no more; the frame behind them has a place */
        cache->known.record = 0;
    cache->n_pending = 0;
    return cache->at;
}

/*
 * Makes the n frames of stage pending, with place `at` behind them; at == b: they are all there is. The first n_barred
 * of them may not be joined. hash: the sum of id[i] * B^(n-1-i) over stage.
 */
void dp_stack_cache_place(struct dp_stack_cache *cache, uint32_t at, uint32_t n, uint32_t n_barred, uint64_t hash);
/*
 * The first of the n frames of stage is the last one of the stack: puts the others rootward of it. If the first
 * n_barred of stage may not be joined, nothing leafward may.
 */
void dp_stack_cache_append(struct dp_stack_cache *cache, uint32_t n, uint32_t n_barred);

/* The stack: its frames' ids, and how many. */
static inline const dp_frame_id *dp_stack_cache_ids(const struct dp_stack_cache *cache)
{
    return &cache->ids[cache->at - cache->n_pending];
}

static inline uint32_t dp_stack_cache_depth(const struct dp_stack_cache *cache)
{
    return cache->b - cache->at + cache->n_pending;
}

/* The word that the pc of frame n, counted from the leaf, was read from, as it is now; n_pending < n < depth. */
uintptr_t dp_stack_cache_return_address(const struct dp_stack_cache *cache, uint32_t n);

/* The hash of the n leafmost frames; n_pending <= n <= depth. */
uint64_t dp_stack_cache_hash(const struct dp_stack_cache *cache, uint32_t n);

/* What a step does to the frame pointer: bytes from its slot up to the CFA; 0: nothing. */
static inline uintptr_t dp_stack_cache_fp_slot(uint32_t rule)
{
#if defined(__aarch64__)
    if (dp_rule_ra(rule) == DP_RULE_RA_ALONE)
        return 0;
#endif
    return dp_rule_slot(rule);
}

/* The bytes from the word that holds the return address up to the CFA, by the rule of the frame that returns. */
static inline uintptr_t dp_stack_cache_ra_slot(uint32_t rule)
{
#if defined(__aarch64__)
    return dp_rule_slot(rule) - (dp_rule_ra(rule) == DP_RULE_RA_BESIDE ? 8 : 0);
#else
    (void)rule;
    return 8;
#endif
}
