/* SPDX-License-Identifier: MIT */
/*
 * victim_first_malloc.c - has its own malloc, whose first call in a thread takes a lock. The program creates a thread
 * while it holds that lock, as jemalloc does for its background threads. Creating a thread takes a lock of the loader.
 * So the profiler's thread must make its first call of malloc while it holds no lock of the loader.
 */
#include "../../support/own_malloc.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool comes; /* a thread is about to take the lock */
static __thread bool is_known;
static _Atomic size_t used;

PUBLIC void *malloc(size_t n)
{
    if (!is_known) {
        is_known = true;
        comes = true;
        pthread_mutex_lock(&threads);
        pthread_mutex_unlock(&threads);
    }
    size_t at = atomic_fetch_add(&used, (n + 31) & ~(size_t)15);
    return at + n + 16 <= sizeof pool ? pool + at : NULL;
}

static void *sleeps(void *arg)
{
    usleep(1000);
    return arg;
}

int main(void)
{
    pthread_t first, second;
    free(malloc(100));
    comes = false;
    pthread_mutex_lock(&threads);
    pthread_create(&first, NULL, sleeps, NULL); /* the profiler creates its thread before this one */
    pthread_join(first, NULL);                  /* a wait, which the profiler's thread writes and names */
    while (!comes)
        sched_yield();
    pthread_create(&second, NULL, sleeps, NULL);
    pthread_mutex_unlock(&threads);
    pthread_join(second, NULL);
    return (void)!write(1, "done\n", 5), 0;
}
