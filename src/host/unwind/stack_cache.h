/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/stack_cache.h - remembers a thread's last stack, so that a new walk only visits the frames that changed.
 * stack_cache.c has the rule and its proof. Context: hook, with the thread's countdown guarded. Each stack cache
 * belongs to one thread.
 */
#pragma once

#include "base/atomic.h"
#include "host/objects/reach.h"
#include "host/unwind/rule.h"
#include "host/unwind/stack.h"

enum { DP_RECENT_STACKS = 16, DP_KNOWN_HOSTS = 8 };
struct dp_recent_stack; /* recent_stacks.h */

/*
 * A frame's state, and its row of the unwind cache: rule and frame id. pc is as read from memory. It stands behind fp,
 * as the two lie in memory where a function keeps a frame pointer.
 */
struct dp_stack_cache_frame {
    uintptr_t fp, pc, sp;
    uint64_t value;
};

/*
 * Zeroed is a valid start. The stack of the last walk consists of `pending`, the frames that this walk found, and
 * behind them the older frames at positions [at, b). There is room on both sides: for new leaf frames, and for a walk
 * that comes further rootward.
 */
struct dp_stack_cache {
    struct dp_own_stack own;
    uint32_t generation;                 /* of this walk; 0: an object is being unloaded, nothing is remembered */
    uint32_t busy;                       /* a walk is under way; if set at a begin, a longjmp left the last walk */
    uint32_t ended;                      /* the last frame is the outermost one, by its rule */
    uint32_t inside;                     /* this thread is inside libunwind */
    struct dp_stack_cache_frame *frames; /* [0, 4 * depth], frames[b].sp is the highest address */
    uint32_t recent_set;                 /* bit per entry of recent that holds a stack */
    uint32_t at, b;
    uint32_t bar;                 /* a walk may not join at positions before it, nor, if bar != at, at pending frames */
    uint32_t n_pending, n_barred; /* a walk may not join at the first n_barred pending frames */
    /* [0, 4 * depth]: sums[i] - sums[j] is the hash of frames [i, j) times a power of B */
    uint64_t *sums;
    uint32_t any;                         /* not 0: pairs or alone may have a bit set */
    struct dp_stack_known known;          /* of the stack */
    uint64_t *pairs;                      /* bit per position: fp is live, and was read from the word below its pc's */
    uint64_t *alone;                      /* bit per position: fp is live, and was read from another word */
    uint8_t *live;                        /* per position: fp is used further rootward, or may be */
    dp_frame_id *ids;                     /* of all frames, at positions [at - n_pending, b) */
    struct dp_stack_cache_frame *stage;   /* [0, depth]: frames that this walk finds */
    struct dp_stack_cache_frame *pending; /* [0, depth]: frames of the last walk, then the one at `at` */
    dp_frame_id *stage_ids;               /* [0, depth) */
    dp_frame_id *others;                  /* [0, depth): a stack that is not remembered */
    uint64_t pending_hash;                /* the sum of id[i] * B^(n-1-i) over pending */
    struct dp_recent_stack *recent;       /* [0, DP_RECENT_STACKS) */
    uintptr_t recent_state[DP_RECENT_STACKS]; /* of the last walk that came to this place */
    uintptr_t states[DP_KNOWN_HOSTS];         /* Lua states that were checked: walk.c */
    uintptr_t returns[DP_KNOWN_HOSTS];        /* return addresses, likewise */
};

/* depth: the largest number of frames of a stack. Fills the tables of powers. -ENOMEM. Context: init. */
int dp_stack_cache_init(unsigned depth);
size_t dp_stack_cache_bytes(void);

/* The part of begin that a walk seldom needs. left: a longjmp left the last walk, between any two stores. */
void dp_stack_cache_begin_anew(struct dp_stack_cache *cache, uint32_t generation, bool left);

/*
 * Begins a walk: lays out a zeroed block if that is not done, and forgets frames that may not be used any more.
 * generation 0: an object is being unloaded.
 */
static inline void dp_stack_cache_begin(struct dp_stack_cache *cache, uint32_t generation)
{
    bool left = cache->busy;
    cache->busy = 1;
    dp_fence_signal();
    if (__builtin_expect(left || !cache->frames || cache->generation != generation || !generation, 0))
        dp_stack_cache_begin_anew(cache, generation, left);
}

/* Ends a walk: the next one may join at the frames that it left in the stack cache. */
static inline void dp_stack_cache_end(struct dp_stack_cache *cache)
{
    dp_fence_signal();
    cache->busy = 0;
}

void dp_stack_cache_clear(struct dp_stack_cache *cache);

/* The last frame of [at, end) to which the words in memory still lead from `at`. */
uint32_t dp_stack_cache_verify(const struct dp_stack_cache *cache, uint32_t at, uint32_t end);

/* Gives positions to pending frame i and the frames behind it; returns the position of i. Drops the other pending
 * frames. */
uint32_t dp_stack_cache_assign_pending(struct dp_stack_cache *cache, uint32_t i);

static inline uint32_t dp_stack_cache_assign(struct dp_stack_cache *cache, uint32_t i)
{
    if (i != cache->n_pending)
        return dp_stack_cache_assign_pending(cache, i);
    if (cache->n_pending) /* the frame behind pending has a position already */
        cache->known.record = 0;
    cache->n_pending = 0;
    return cache->at;
}

/*
 * Makes the n frames of stage pending, in front of position `at`; at == b: they are the whole stack. A walk may not
 * join at the first n_barred of them. hash: the sum of id[i] * B^(n-1-i) over stage.
 */
void dp_stack_cache_put_frames(struct dp_stack_cache *cache, uint32_t at, uint32_t n, uint32_t n_barred, uint64_t hash);

/* Most often the stack begins where the last one did. */
static inline void dp_stack_cache_put(struct dp_stack_cache *cache, uint32_t at, uint32_t n, uint32_t n_barred,
                                      uint64_t hash)
{
    if (n || at != cache->at || at == cache->b) {
        dp_stack_cache_put_frames(cache, at, n, n_barred, hash);
        return;
    }
    cache->bar = at;
    cache->pending[0] = cache->frames[at];
    cache->n_pending = cache->n_barred = 0;
    cache->pending_hash = 0;
}
/*
 * The first of the n frames of stage is the last frame of the stack: puts the others rootward of it. If the first
 * n_barred frames of stage are barred (a walk may not join at them), all frames leafward are barred too.
 */
void dp_stack_cache_append(struct dp_stack_cache *cache, uint32_t n, uint32_t n_barred);

/* The stack: the ids of its frames, and their number. */
static inline const dp_frame_id *dp_stack_cache_ids(const struct dp_stack_cache *cache)
{
    return &cache->ids[cache->at - cache->n_pending];
}

static inline uint32_t dp_stack_cache_depth(const struct dp_stack_cache *cache)
{
    return cache->b - cache->at + cache->n_pending;
}

/* The current value of the word that the pc of frame n (counted from the leaf) was read from; n_pending < n < depth. */
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

/* The bytes from the word that holds the return address up to the CFA, by the rule of the returning frame. */
static inline uintptr_t dp_stack_cache_ra_slot(uint32_t rule)
{
#if defined(__aarch64__)
    return dp_rule_slot(rule) - (dp_rule_ra(rule) == DP_RULE_RA_BESIDE ? 8 : 0);
#else
    (void)rule;
    return 8;
#endif
}
