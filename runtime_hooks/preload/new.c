/* SPDX-License-Identifier: MIT */
/*
 * new.c - operator new and delete, as events, in the way of malloc.c.
 *
 * A file of its own, because in a static program it needs the C++ library (wrap.h).
 */
#include "allocator.h"

#define NEW_ROW(name, result, parameters, arguments, version) \
    DP_HOOK void *name parameters;                            \
    ALLOCATOR(name, parameters, arguments, n)
DP_SYMBOLS_NEW(NEW_ROW)

#define DELETE_ROW(name, result, parameters, arguments, version) \
    DP_HOOK void name parameters;                                \
    DP_DUE void name##_due parameters                            \
    {                                                            \
        deltaprof_free_sampled(0, ptr);                          \
        DP_REAL(name) arguments;                                 \
    }                                                            \
    DP_HOOK void name parameters                                 \
    {                                                            \
        if (deltaprof_may_be_live(0, ptr))                       \
            name##_due arguments;                                \
        else                                                     \
            DP_REAL(name) arguments;                             \
    }
DP_SYMBOLS_DELETE(DELETE_ROW)
