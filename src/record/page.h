/* SPDX-License-Identifier: MIT */
/*
 * record/page.h - samples of a runtime's heap whose blocks come from the C heap, at a page boundary.
 *
 *     NONE    --- the runtime's sample asks -----------> ASKED
 *     ASKED   --- an event of the C heap inside it ----> TAKEN
 *     TAKEN   --- end of that event: its address ------> GIVEN
 *     any     --- end of the sample -------------------> NONE
 *
 * If the block of the sample is the one that the C heap gave, it enters the set of live blocks as a block of the C
 * heap: the hooks of the C heap see its free. So the runtime's own free needs no hook.
 */
#pragma once

#include "store/live_blocks.h"
#include "store/thread.h"

#include <deltaprof/heap.h>

/* The content of deltaprof_sample between begin and end. */
struct __attribute__((may_alias)) sample {
    int64_t rest; /* the countdown after this event; below 1: draw a new distance */
    uint64_t bytes;
    uint32_t weight; /* 0: not a sample */
    bool claimed;
    bool muted; /* the thread was guarded; weight is 0, and bytes what was asked for */
    uint8_t heap;
    uint8_t n_left_out; /* frames at the leaf end */
    uint32_t slot;
    uintptr_t old; /* key of the claimed entry */
    struct dp_live_block entry;
};
_Static_assert(sizeof(struct sample) <= sizeof(struct deltaprof_sample), "the public struct reserves it");

/* The C heap's event inside a sample that asked has ended. Context: hook. */
static inline void dp_page_given(const void *ptr)
{
    struct dp_thread *thread = dp_thread_self();
    if (thread->page != DP_PAGE_TAKEN)
        return;
    thread->page_given = (uint32_t)(uintptr_t)ptr;
    thread->page = DP_PAGE_GIVEN;
}

/* Whether the C heap gave this block to the sample under way: by half of its address, which tells it from a block that
 * begins inside. Context: hook. */
static inline bool dp_page_is_given(const void *ptr)
{
    const struct dp_thread *thread = dp_thread_self();
    return thread->page == DP_PAGE_GIVEN && thread->page_given == (uint32_t)(uintptr_t)ptr;
}
