/* SPDX-License-Identifier: MIT */
/*
 * behind.c - an allocator preloaded behind the profiler, which resolves its own next one as interposers do. It raises
 * a signal, or calls a function, in the middle of malloc when it is asked to.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int raise_in_malloc;
EXPORT void (*call_in_malloc)(void);

EXPORT void *malloc(size_t n_bytes)
{
    static void *(*next)(size_t);
    if (!next)
        next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    int signal = raise_in_malloc;
    if (signal) {
        raise_in_malloc = 0;
        raise(signal);
    }
    void (*call)(void) = call_in_malloc;
    if (call) {
        call_in_malloc = NULL;
        call();
    }
    return next(n_bytes);
}
