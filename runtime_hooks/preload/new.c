/* SPDX-License-Identifier: MIT */
/*
 * new.c - hooks of operator new and delete; they work as those of malloc.c.
 *
 * Where they are the C++ library's own (dp_real_shorten_cxx), the real functions of the plain ones are malloc and free:
 * the library's would call those, through the hooks of malloc.c. An operator new of the library is called after malloc
 * had no memory.
 *
 * A separate file, because in a static program it needs the C++ library (wrap.h).
 */
#include "allocator.h"

#ifdef DP_WRAP
#define ON_PAGE                    NULL
#define NO_MEMORY(name, arguments) NULL
#define IS_MALLOC(name)            false
#else
#define ON_PAGE                    (dp_new._Znwm ? dp_page_block(n) : NULL)
#define NO_MEMORY(name, arguments) (dp_new.name ? dp_new.name arguments : NULL)
#define IS_MALLOC(name)            ((void *)DP_REAL(name) == (void *)DP_REAL(malloc))
#endif

#define NEW_ROW(name, result, parameters, arguments, version) \
    DP_HOOK void *name parameters;                            \
    ALLOCATOR(name, parameters, arguments, n, ON_PAGE, NO_MEMORY(name, arguments), IS_MALLOC(name))
DP_SYMBOLS_NEW_PLAIN(NEW_ROW)

#define ALIGNED_ROW(name, result, parameters, arguments, version) \
    DP_HOOK void *name parameters;                                \
    ALLOCATOR(name, parameters, arguments, n, NULL, NULL, false)
DP_SYMBOLS_NEW_ALIGNED(ALIGNED_ROW)

#define DELETE_ROW(name, result, parameters, arguments, version) \
    DP_HOOK void name parameters;                                \
    DP_DUE void name##_asked parameters                          \
    {                                                            \
        if (deltaprof_gate_may_be_live(&DP_GATE, ptr))           \
            deltaprof_free_sampled(0, ptr);                      \
        DP_REAL(name) arguments;                                 \
    }                                                            \
    DP_HOOK void name parameters                                 \
    {                                                            \
        if (deltaprof_gate_passes(&DP_GATE, ptr))                \
            DP_REAL(name) arguments;                             \
        else                                                     \
            name##_asked arguments;                              \
    }
DP_SYMBOLS_DELETE(DELETE_ROW)
