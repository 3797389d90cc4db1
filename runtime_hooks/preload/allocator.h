/* SPDX-License-Identifier: MIT */
/* allocator.h - macros for the hooks of functions that return a new block, or NULL. */
#pragma once

#include "hook.h"

#include <errno.h>

/*
 * libc keeps a freed block of up to 1,032 bytes for the next request of that size. A block at a page boundary would
 * come back again and again then, and its every free would ask the filter. A larger one joins its neighbours when it is
 * freed.
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
 * on_page: the same block at a page boundary, for a sample, or NULL. The real function gets its chance where that is
 * not to be had. failed: what to answer when the real function answers NULL.
 */
#define ALLOCATOR(name, parameters, arguments, n_bytes, on_page, failed)  \
    DP_DUE void *name##_due parameters                                    \
    {                                                                     \
        struct deltaprof_site site = DELTAPROF_SITE_CALLER();             \
        struct deltaprof_sample sample;                                   \
        deltaprof_sample_begin(&sample, 0, n_bytes);                      \
        DP_GUARDED();                                                     \
        void *ptr = NULL;                                                 \
        if (deltaprof_gate_wants_page(&DP_GATE, &sample)) {               \
            int saved_errno = errno;                                      \
            ptr = (on_page);                                              \
            errno = saved_errno;                                          \
        }                                                                 \
        if (!ptr)                                                         \
            ptr = DP_REAL(name) arguments;                                \
        if (!ptr)                                                         \
            ptr = (failed);                                               \
        deltaprof_sample_end(&sample, ptr, &site);                        \
        dp_edge(&site);                                                   \
        return ptr;                                                       \
    }                                                                     \
    DP_HOOK void *name parameters                                         \
    {                                                                     \
        int64_t rest;                                                     \
        if (!deltaprof_gate_heap_on(&DP_GATE)) {                          \
            void *block = DP_REAL(name) arguments;                        \
            return __builtin_expect(block != NULL, 1) ? block : (failed); \
        }                                                                 \
        if (deltaprof_gate_subtract(&DP_GATE, n_bytes, &rest))            \
            return name##_due arguments;                                  \
        DP_GUARDED();                                                     \
        void *ptr = DP_REAL(name) arguments;                              \
        if (__builtin_expect(!ptr, 0))                                    \
            ptr = (failed);                                               \
        deltaprof_gate_restore(&DP_GATE, rest);                           \
        return ptr;                                                       \
    }
