/* SPDX-License-Identifier: MIT */
/*
 * victim_own_malloc.c - has its own malloc, with a lock inside a lock. Creating a thread while the outer one is held
 * would hang for ever: so the unlock of a contended inner lock must not create one.
 */
#include "../../support/locks.h"

#define PUBLIC __attribute__((visibility("default")))

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static char pool[16 << 20] __attribute__((aligned(16)));
static size_t used;
static _Atomic int ready;  /* to come */
static _Atomic int wanted; /* the next to hold the inner lock lets it go when somebody has come */
static _Atomic int held;   /* for that */

PUBLIC void *malloc(size_t n)
{
    pthread_mutex_lock(&outer);
    pthread_mutex_lock(&inner);
    if (atomic_exchange(&wanted, 0)) {
        held = 1;
        until_it_sleeps();
        held = 0;
    }
    void *p = used + n + 16 <= sizeof pool ? pool + used : NULL;
    used += (n + 15) & ~(size_t)15;
    pthread_mutex_unlock(&inner);
    pthread_mutex_unlock(&outer);
    return p;
}
PUBLIC void free(void *p)
{
    (void)p;
}
PUBLIC void *calloc(size_t count, size_t size)
{
    void *p = malloc(count * size);
    return p ? memset(p, 0, count * size) : NULL;
}
PUBLIC void *realloc(void *old, size_t n)
{
    void *p = malloc(n);
    return p && old ? memcpy(p, old, n) : p;
}

static void *comes_meanwhile(void *arg)
{
    for (int i = 0; i < 3; i++) {
        ready = 1;
        while (!held)
            sched_yield();
        says_it_takes();
        pthread_mutex_lock(&inner);
        pthread_mutex_unlock(&inner);
    }
    return arg;
}

int main(void)
{
    pthread_t t;
    pthread_create(&t, NULL, comes_meanwhile, NULL);
    for (int i = 0; i < 3; i++) {
        usleep(65000); /* a tick is due by now */
        while (!ready)
            sched_yield();
        ready = 0;
        wanted = 1;
        free(malloc(100));
    }
    pthread_join(t, NULL);
    return (void)!write(1, "done\n", 5), 0;
}
