/* SPDX-License-Identifier: MIT */
/*
 * victim_own_malloc.c - has its own malloc, with a lock inside a lock. Creating a thread while the outer lock is held
 * would hang for ever, so the profiler must not create its thread at the unlock of a contended inner lock.
 */
#include "../../support/own_malloc.h"
#include "../../support/locks.h"

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static size_t used;
static _Atomic int ready;  /* the waiter is about to lock */
static _Atomic int wanted; /* the next holder of the inner lock keeps it until the waiter has come */
static _Atomic int held;   /* the holder has it for that reason */

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
