/* SPDX-License-Identifier: MIT */
/*
 * victim_own_clock.c - has its own clock_gettime, as libfaketime does. It takes a mutex, and tells a time that is
 * twenty years ahead. A hook of that mutex that asked this clock for the time would enter itself for ever.
 */
#include "../../support/locks.h"

#define PUBLIC __attribute__((visibility("default")))

enum { TWENTY_YEARS = 20 * 365 * 86400, TURNS = 3 };

static pthread_mutex_t clock_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int held, n_asked;

PUBLIC int clock_gettime(clockid_t id, struct timespec *t)
{
    pthread_mutex_lock(&clock_lock);
    int err = (int)syscall(SYS_clock_gettime, id, t);
    t->tv_sec += TWENTY_YEARS;
    pthread_mutex_unlock(&clock_lock);
    return err;
}

static APART void asks_for_the_time(void)
{
    struct timespec t;
    says_it_takes();
    clock_gettime(CLOCK_REALTIME, &t);
    free(malloc((size_t)t.tv_sec % 100));
}

static void *asks(void *arg)
{
    for (int i = 0; i < TURNS; i++) {
        while (!held)
            sched_yield();
        asks_for_the_time();
        n_asked++;
    }
    return arg;
}

int main(void)
{
    pthread_t t;
    pthread_create(&t, NULL, asks, NULL);
    for (int i = 0; i < TURNS; i++) {
        pthread_mutex_lock(&clock_lock);
        held = 1;
        until_it_sleeps();
        held = 0;
        pthread_mutex_unlock(&clock_lock);
        while (n_asked == i)
            sched_yield();
    }
    pthread_join(t, NULL);
    return (void)!write(1, "done\n", 5), 0;
}
