/* SPDX-License-Identifier: MIT */
/*
 * new.c - hooks of operator new and delete; they work like the hooks of malloc.c.
 *
 * If the program uses the operators of the C++ library (dp_real_shorten_cxx), the hooks of the plain operators call the
 * real malloc and free. The library's operators would call the hooks of malloc.c, which would be a detour. The
 * library's operator new is called only if malloc had no memory.
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

#define DELETE_ROW(name, result, parameters, arguments, version)                                            \
    DP_HOOK void name parameters;                                                                           \
    DP_DUE void name##_asked parameters                                                                     \
    {                                                                                                       \
        if (ptr && !deltaprof_gate_page_passes(&DP_GATE, ptr) && deltaprof_gate_may_be_live(&DP_GATE, ptr)) \
            deltaprof_free_sampled(0, ptr);                                                                 \
        DP_REAL(name) arguments;                                                                            \
    }                                                                                                       \
    DP_HOOK void name parameters                                                                            \
    {                                                                                                       \
        if (deltaprof_gate_passes(&DP_GATE, ptr))                                                           \
            DP_REAL(name) arguments;                                                                        \
        else                                                                                                \
            name##_asked arguments;                                                                         \
    }
DP_SYMBOLS_DELETE(DELETE_ROW)
