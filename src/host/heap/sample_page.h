/* SPDX-License-Identifier: MIT */
/*
 * host/heap/sample_page.h - which samples lie at a page boundary. An allocator of a runtime, such as Python's, passes
 * its samples on to the C heap, which places them there.
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

#include "host/thread/thread.h"

/* The C heap's event inside a sample that asked has ended. Context: hook. */
static inline void dp_heap_page_given(const void *ptr)
{
    struct dp_thread *thread = dp_thread_self();
    if (thread->page != DP_SAMPLE_PAGE_TAKEN)
        return;
    thread->page_given = (uint32_t)(uintptr_t)ptr;
    thread->page = DP_SAMPLE_PAGE_GIVEN;
}

/* Whether the C heap gave this block to the sample under way: by half of its address, which tells it from a block that
 * begins inside. Context: hook. */
static inline bool dp_heap_page_is_given(const void *ptr)
{
    const struct dp_thread *thread = dp_thread_self();
    return thread->page == DP_SAMPLE_PAGE_GIVEN && thread->page_given == (uint32_t)(uintptr_t)ptr;
}
