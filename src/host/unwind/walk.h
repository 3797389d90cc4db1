/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/walk.h - one walk by cached rules. Context: hook.
 */
#pragma once

#include "base/mem.h"
#include "host/unwind/stack_cache.h"

struct deltaprof_site;

enum dp_walk_end {
    DP_WALK_WHOLE,     /* up to the outermost frame */
    DP_WALK_CUT,       /* frames are missing: depth reached, unreadable memory, or no unwind data */
    DP_WALK_LIBUNWIND, /* no rule describes the last frame: libunwind is needed */
};

/*
 * Walks from site, at most depth frames, and leaves the stack in the stack cache. There is at least one frame, unless
 * site->pc cannot be code. Uses the generation that dp_stack_cache_begin was given.
 */
enum dp_walk_end dp_walk(struct dp_stack_cache *cache, const struct deltaprof_site *site, unsigned depth);

/*
 * Walks from an interrupted place by rules only, without a look at the frames of earlier walks, and leaves the stack in
 * the first *n places of cache->stage and cache->stage_ids: at least one frame. link: aarch64's link register, else 0.
 * Context: a signal handler; the cache is no thread's own.
 */
enum dp_walk_end dp_walk_interrupted(struct dp_stack_cache *cache, const struct deltaprof_site *site, uintptr_t link,
                                     unsigned depth, uint32_t *n);

/* Whether an address can be code at all. Rule keys have room for 48 bits. */
static inline bool dp_walk_plausible(uintptr_t pc)
{
    return pc - DP_PAGE_LEAST < ((uintptr_t)1 << 48) - DP_PAGE_LEAST;
}

/* A return address without its authentication code. */
static inline uintptr_t dp_walk_strip(uintptr_t pc)
{
#if defined(__aarch64__)
    register uintptr_t x30 __asm__("x30") = pc;
    __asm__("hint 7" : "+r"(x30)); /* xpaclri; a no-op on older processors */
    return x30;
#else
    return pc;
#endif
}
