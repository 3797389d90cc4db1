/* SPDX-License-Identifier: MIT */
/* allocator.h - macros for the hooks of functions that return a new block, or NULL. */
#pragma once

#include "hook.h"

#include <errno.h>

/*
 * libc keeps a freed block of up to 1,032 bytes for the next request of that size. So it would return a small block at
 * a page boundary again and again, and each free of it would ask the filter. A larger block is merged with its
 * neighbours when it is freed.
 */
enum { DP_PAGE_BLOCK_MIN = 1040 };

static inline size_t dp_page_block_size(size_t n)
{
    return n < DP_PAGE_BLOCK_MIN ? DP_PAGE_BLOCK_MIN : n;
}

static inline void *dp_page_block(size_t n)
{
    return DP_REAL(memalign)(DELTAPROF_PAGE_BYTES, dp_page_block_size(n));
}

/*
 * Defines the hook `name` and its slower paths.
 *
 * on_page: allocates the block of a sample at a page boundary; if it is NULL, the real function is called. failed: the
 * value to return if the real function returns NULL. is_direct: the real function belongs to the C heap's
 * allocator. So if that allocator calls no hook (deltaprof_gate_is_leaf), the real function calls none either.
 *
 * ALLOCATOR(malloc, (size_t n), (n), n, dp_page_block(n), NULL, true) defines, without the handling of NULL:
 *
 *     void *malloc(size_t n)
 *     {
 *         if (the C heap's allocator calls no hook)
 *             return deltaprof_gate_count(&DP_GATE, n) ? malloc_due(n) : real_malloc(n);
 *         return the heap profile is on ? malloc_guarded(n) : real_malloc(n);
 *     }
 *     void *malloc_guarded(size_t n)            counts n; the real function may call hooks, which must not count again
 *     void *malloc_due(size_t n)                a sample is due: captures the stack and tracks the block
 */
#define ALLOCATOR(name, parameters, arguments, n_bytes, on_page, failed, is_direct) \
    DP_DUE void *name##_due parameters                                              \
    {                                                                               \
        struct deltaprof_site site = DELTAPROF_SITE_CALLER();                       \
        struct deltaprof_sample sample;                                             \
        deltaprof_sample_begin(&sample, 0, n_bytes);                                \
        DP_GUARDED();                                                               \
        void *ptr = NULL;                                                           \
        if (deltaprof_gate_wants_page(&DP_GATE, &sample)) {                         \
            int saved_errno = errno;                                                \
            ptr = (on_page);                                                        \
            errno = saved_errno;                                                    \
        }                                                                           \
        if (!ptr)                                                                   \
            ptr = DP_REAL(name) arguments;                                          \
        if (!ptr)                                                                   \
            ptr = (failed);                                                         \
        deltaprof_sample_end(&sample, ptr, &site);                                  \
        dp_edge(&site);                                                             \
        return ptr;                                                                 \
    }                                                                               \
    DP_DUE void *name##_guarded parameters                                          \
    {                                                                               \
        int64_t rest;                                                               \
        if (deltaprof_gate_subtract(&DP_GATE, n_bytes, &rest))                      \
            return name##_due arguments;                                            \
        DP_GUARDED();                                                               \
        void *ptr = DP_REAL(name) arguments;                                        \
        if (__builtin_expect(!ptr, 0))                                              \
            ptr = (failed);                                                         \
        deltaprof_gate_restore(&DP_GATE, rest);                                     \
        return ptr;                                                                 \
    }                                                                               \
    DP_HOOK void *name parameters                                                   \
    {                                                                               \
        if ((is_direct) && deltaprof_gate_is_leaf(&DP_GATE)) {                      \
            if (deltaprof_gate_count(&DP_GATE, n_bytes))                            \
                return name##_due arguments;                                        \
            void *ptr = DP_REAL(name) arguments;                                    \
            return __builtin_expect(ptr != NULL, 1) ? ptr : (failed);               \
        }                                                                           \
        if (__builtin_expect(deltaprof_gate_heap_on(&DP_GATE), 0))                  \
            return name##_guarded arguments;                                        \
        void *ptr = DP_REAL(name) arguments;                                        \
        return __builtin_expect(ptr != NULL, 1) ? ptr : (failed);                   \
    }
