/* SPDX-License-Identifier: MIT */
/*
 * strict.c - an allocator preloaded behind the profiler. On request it raises a signal in the middle of malloc. The
 * signal's handler must not call the allocator: a real one would hang or be corrupted. If it does, this allocator
 * prints a line and kills the process.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int strict_signal; /* raised by the next malloc */
EXPORT __thread int strict_inside;

static void *(*real_malloc)(size_t), *(*real_calloc)(size_t, size_t), *(*real_realloc)(void *, size_t);
static void (*real_free)(void *);

__attribute__((constructor)) static void resolve(void)
{
    real_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    real_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    real_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    real_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
}

static void enter(void)
{
    static const char line[] = "strict: memory is asked for inside malloc\n";
    if (!real_free)
        resolve();
    if (strict_inside) {
        (void)!write(STDERR_FILENO, line, sizeof line - 1);
        raise(SIGKILL);
    }
}

EXPORT void *malloc(size_t n_bytes)
{
    enter();
    if (strict_signal) {
        int number = strict_signal;
        strict_signal = 0;
        strict_inside = 1;
        raise(number);
        strict_inside = 0;
    }
    return real_malloc(n_bytes);
}

EXPORT void *calloc(size_t count, size_t size)
{
    enter();
    return real_calloc(count, size);
}

EXPORT void *realloc(void *old, size_t n_bytes)
{
    enter();
    return real_realloc(old, n_bytes);
}

EXPORT void free(void *ptr)
{
    enter();
    real_free(ptr);
}
