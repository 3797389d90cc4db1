/* SPDX-License-Identifier: MIT */
/*
 * victim_own - a program with its own malloc, which holds its lock while it initializes itself. The profiler sees none
 * of its events, and must not call it while that lock is held. It has a realloc and no reallocarray: libc's calls the
 * program's realloc.
 */
#include "../../support/never_freed.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t setup = PTHREAD_MUTEX_INITIALIZER, arena = PTHREAD_MUTEX_INITIALIZER;
static char memory[64 << 20] __attribute__((aligned(64)));
static size_t used;

EXPORT void *malloc(size_t n_bytes)
{
    void *ptr = NULL;
    size_t want = (n_bytes + 31) & ~(size_t)15;
    while (pthread_mutex_trylock(&setup))
        sched_yield();
    pthread_mutex_lock(&arena);
    if (n_bytes < sizeof memory && used + want <= sizeof memory) {
        ptr = memory + used + 16;
        *(size_t *)(memory + used + 8) = n_bytes;
        used += want;
    }
    pthread_mutex_unlock(&arena);
    pthread_mutex_unlock(&setup);
    return ptr;
}

/* As if the program contained a C++ library, too, without most of its operators. */
EXPORT void __cxa_throw(void);
EXPORT void __cxa_throw(void)
{
    abort();
}

/* Runs before any constructor, those of the profiler included. */
static void early(void)
{
    free(malloc(10));
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = early;

int main(void)
{
    for (int i = 0; i < 1000; i++)
        free(malloc((size_t)i));
    char *grown = reallocarray(memset(malloc(100), 7, 100), 10, 100);
    printf("used: %d, grown: %d\n", used > 1000 * 16, grown > memory && grown < memory + used && grown[99] == 7);
    return 5;
}
