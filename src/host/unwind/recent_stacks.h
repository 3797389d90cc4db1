/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/recent_stacks.h - remembers some whole stacks of a thread by the state of their leaf, for programs that
 * allocate from a few places in turn. Context: hook, during a walk.
 */
#pragma once

#include "host/unwind/stack_cache.h"

#include <deltaprof/thread.h>

/* With frame pointers a frame takes two words. */
enum { DP_RECENT_FRAMES = 28, DP_RECENT_WORDS = 40 };

struct dp_recent_stack {
    uintptr_t pc, sp, fp; /* of the leaf */
    struct dp_stack_known known;
    uint8_t depth, n_words;       /* n_words is a multiple of 4 */
    bool any_fp;                  /* the stack is the same for every fp of the leaf */
    uint16_t at[DP_RECENT_WORDS]; /* where the walk read a word: words above sp */
    uint64_t word[DP_RECENT_WORDS];
    dp_frame_id ids[DP_RECENT_FRAMES];
};

static inline unsigned dp_recent_place(const struct deltaprof_site *site)
{
    return (unsigned)((site->pc ^ site->sp >> 3) * DP_STACK_BASE >> 60) % DP_RECENT_STACKS;
}

/*
 * The entry whose stack is the one at site; NULL: none. A find is no walk: it changes nothing, and needs no begin and
 * end.
 */
static inline struct dp_recent_stack *dp_recent_stacks_find(const struct dp_stack_cache *cache,
                                                            const struct deltaprof_site *site, uint32_t generation)
{
    unsigned place = dp_recent_place(site);
    if (!(cache->recent_set >> place & 1) || !generation || cache->generation != generation || cache->busy)
        return NULL;
    struct dp_recent_stack *stack = &cache->recent[place];
    if (stack->pc != site->pc || stack->sp != site->sp || (!stack->any_fp && stack->fp != site->fp) ||
        site->sp - cache->own.lo >= cache->own.hi - cache->own.lo)
        return NULL;
    for (unsigned i = 0; i < stack->n_words; i += 4) {
        uint64_t differs = 0;
        for (unsigned k = i; k < i + 4; k++)
            differs |= dp_reach_read(site->sp + stack->at[k] * sizeof(uint64_t)) ^ stack->word[k];
        if (differs)
            return NULL;
    }
    return stack;
}

/*
 * The walk from site has left a whole stack in the stack cache: remembers it if it is the second in a row in its place.
 */
void dp_recent_stacks_offer(struct dp_stack_cache *cache, const struct deltaprof_site *site);
