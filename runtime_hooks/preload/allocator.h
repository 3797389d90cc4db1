/* SPDX-License-Identifier: MIT */
/*
 * allocator.h - the hook of a function that returns a new block, or NULL.
 */
#pragma once

#include "hook.h"

#define ALLOCATOR(name, parameters, arguments, n_bytes)       \
    DP_DUE void *name##_due parameters                        \
    {                                                         \
        struct deltaprof_site site = DELTAPROF_SITE_CALLER(); \
        struct deltaprof_sample sample;                       \
        deltaprof_sample_begin(&sample, 0, n_bytes);          \
        DP_GUARDED();                                         \
        void *ptr = DP_REAL(name) arguments;                  \
        deltaprof_sample_end(&sample, ptr, &site);            \
        dp_edge(&site);                                       \
        return ptr;                                           \
    }                                                         \
    DP_HOOK void *name parameters                             \
    {                                                         \
        int64_t rest;                                         \
        if (deltaprof_countdown_subtract(n_bytes, &rest))     \
            return name##_due arguments;                      \
        DP_GUARDED();                                         \
        void *ptr = DP_REAL(name) arguments;                  \
        deltaprof_countdown_restore(rest);                    \
        return ptr;                                           \
    }
