/* SPDX-License-Identifier: MIT */
/*
 * behind.c - an interposing allocator that is preloaded behind the profiler and forwards to the next one. On request
 * it raises a signal, or calls a function, in the middle of malloc.
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
