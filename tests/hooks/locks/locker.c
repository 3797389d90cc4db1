/* SPDX-License-Identifier: MIT */
/*
 * locker.c - an allocator that uses mutexes and is preloaded behind the profiler: each call holds one mutex, and free
 * locks a second one inside, for which locker_count makes it wait.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static long n_freed;
static void *(*next_malloc)(size_t);
static void (*next_free)(void *);

EXPORT void *malloc(size_t n_bytes)
{
    if (!next_malloc)
        next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    pthread_mutex_lock(&outer);
    void *ptr = next_malloc(n_bytes);
    pthread_mutex_unlock(&outer);
    return ptr;
}

EXPORT void *calloc(size_t count, size_t size)
{
    size_t n_bytes;
    void *ptr = __builtin_mul_overflow(count, size, &n_bytes) ? NULL : malloc(n_bytes);
    return ptr ? memset(ptr, 0, n_bytes) : NULL;
}

EXPORT void free(void *ptr)
{
    if (!next_free)
        next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    pthread_mutex_lock(&outer);
    pthread_mutex_lock(&inner);
    n_freed++;
    pthread_mutex_unlock(&inner);
    next_free(ptr);
    pthread_mutex_unlock(&outer);
}

EXPORT long locker_count(void)
{
    pthread_mutex_lock(&inner);
    for (volatile int i = 0; i < 20000; i++)
        ;
    long n = n_freed;
    pthread_mutex_unlock(&inner);
    return n;
}
