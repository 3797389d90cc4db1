/* SPDX-License-Identifier: MIT */
/*
 * victim_tails.c - functions that end in a jump: to malloc, to a function that jumps to malloc, to an unlock. Compiled
 * with optimisation, so that the last calls become jumps.
 */
#include "../../support/locks.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *volatile kept[400];

__attribute__((noinline, noclone)) void *makes(size_t n)
{
    return malloc(n * 2);
}

__attribute__((noinline, noclone)) void *passes_on(size_t n)
{
    return n > 5 ? makes(n + 1) : NULL;
}

static size_t state = 1;

static inline size_t mixed(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return 100 + state % 100;
}

/* Inlined code is at its entry. */
__attribute__((noinline, noclone)) void *mixes(void)
{
    return malloc(mixed());
}

/* Calls malloc and returns. */
__attribute__((noinline, noclone)) void *calls(size_t n)
{
    char *block = malloc(n);
    *(volatile char *)block = 1;
    return block;
}

static atomic_bool over;

/* Apart: its buffers would keep the caller from ending in a jump. */
static APART void until_it_is_awaited(void)
{
    while (!sleeps(taker))
        sched_yield();
}

__attribute__((noinline, noclone)) void checkpoint(void)
{
    pthread_mutex_lock(&mutex);
    until_it_is_awaited();
    usleep(5000);
    pthread_mutex_unlock(&mutex);
}

__attribute__((noinline, noclone)) void *serves(void *unused)
{
    while (!over) {
        says_it_takes();
        pthread_mutex_lock(&mutex);
        taker = 0;
        pthread_mutex_unlock(&mutex);
        usleep(1000);
    }
    return unused;
}

int main(void)
{
    pthread_t thread;
    for (int i = 0; i < 100; i++) {
        kept[i] = makes(50);
        kept[100 + i] = passes_on(99);
        kept[200 + i] = calls(300);
        kept[300 + i] = mixes();
    }
    pthread_create(&thread, NULL, serves, NULL);
    for (int i = 0; i < 10; i++) {
        checkpoint();
        usleep(500);
    }
    over = true;
    pthread_join(thread, NULL);
    return 0;
}
