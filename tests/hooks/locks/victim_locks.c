/* SPDX-License-Identifier: MIT */
/*
 * victim_locks.c - uses locks and measures the waits by its own clock: victim_locks WHAT [ARGUMENT...].
 *
 *   turns THREADS N US     THREADS x N turns in one mutex, US each, and more until a thread waited in one of twenty
 *   measured N US          the same by two threads; prints in how many turns the other one waited, and for how many
 *                          nanoseconds of these turns
 *   shared THREADS N US    as turns, in a mutex that other processes may hold
 *   unequal                one thread holds for 10 ms, nine for 10 us; prints FUNCTION NANOSECONDS of waiting each
 *                          caused
 *   timeouts THREADS N US  as turns, where every third try is timed; rwlocks too
 *   ends                   waits that time out, five or six of 10 ms in each function; a wait that ends because
 *                          the holder ends; a lock that is destroyed while it is held
 *   unfinished             turns; then the process ends while a thread waits for two readers, one of which has
 *                          unlocked, and another one for a mutex that stays held
 *   single                 a process without threads: no waits
 */
#include "../../support/locks.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static long turns, turn_us, enough;

/* ---- turns ------------------------------------------------------------------------------------------------------ */

static _Atomic long n_wanting, n_awaited; /* threads that want the lock; turns at whose end there was such a thread */
static _Atomic int64_t wanting_since;     /* of the thread that came last */
static int64_t awaited_ns;

APART static void take_turn(void)
{
    wanting_since = now_ns();
    n_wanting++;
    pthread_mutex_lock(&mutex);
    n_wanting--;
    int64_t start = now_ns();
    pass_us(turn_us);
    if (n_wanting) {
        int64_t since = wanting_since;
        n_awaited++;
        awaited_ns += now_ns() - (since > start ? since : start);
    }
    pthread_mutex_unlock(&mutex);
}

/* A thread may be delayed for as long as all others take. */
static void *takes_turns(void *arg)
{
    for (long i = 0; i < turns || n_awaited < enough; i++)
        take_turn();
    return arg;
}

/* ---- unequal ---------------------------------------------------------------------------------------------------- */

#define SHORT  9
#define LOGGED 200000
struct span {
    int64_t from, to;
    int by; /* tenures: 1 the long one */
};
static struct {
    struct span spans[LOGGED];
    int n;
} waits, tenures; /* written under the mutex */
static _Atomic bool over;

static void logs_wait(int64_t from, int64_t to)
{
    if (waits.n < LOGGED)
        waits.spans[waits.n++] = (struct span){from, to, 0};
}
static void logs_tenure(int64_t from, int64_t to, int by)
{
    if (tenures.n < LOGGED)
        tenures.spans[tenures.n++] = (struct span){from, to, by};
}

APART static void holds_long(void)
{
    int64_t s = now_ns();
    pthread_mutex_lock(&mutex);
    int64_t e = now_ns();
    pass_us(10000);
    logs_wait(s, e);
    logs_tenure(e, now_ns(), 1);
    pthread_mutex_unlock(&mutex);
}

APART static void holds_short(void)
{
    int64_t s = now_ns();
    pthread_mutex_lock(&mutex);
    int64_t e = now_ns();
    pass_us(10);
    logs_wait(s, e);
    logs_tenure(e, now_ns(), 0);
    pthread_mutex_unlock(&mutex);
}

static void *unequal(void *arg)
{
    if (arg == NULL) {
        for (int i = 0; i < 60; i++) {
            holds_long();
            usleep(3000);
        }
        over = true;
    } else {
        while (!over) {
            holds_short();
            usleep(1000);
        }
    }
    return NULL;
}

/* The time that each function's tenures share with all waits. */
static void tell_unequal(void)
{
    int64_t caused[2] = {0, 0};
    for (int w = 0; w < waits.n; w++)
        for (int t = 0; t < tenures.n; t++) {
            const struct span *a = &waits.spans[w], *b = &tenures.spans[t];
            int64_t from = a->from > b->from ? a->from : b->from, to = a->to < b->to ? a->to : b->to;
            if (to > from)
                caused[b->by] += to - from;
        }
    printf("holds_long %lld\nholds_short %lld\n", (long long)caused[1], (long long)caused[0]);
}

/* ---- timeouts --------------------------------------------------------------------------------------------------- */

APART static void try_turn(long i)
{
    struct timespec t = soon(20);
    n_wanting++;
    int result = i % 3 ? pthread_mutex_lock(&mutex) : pthread_mutex_timedlock(&mutex, &t);
    n_wanting--;
    if (result == 0) {
        pass_us(turn_us);
        n_awaited += n_wanting > 0;
        pthread_mutex_unlock(&mutex);
    }
}

APART static void try_share(long i)
{
    struct timespec t = soon(20);
    int result = i % 5 == 0   ? pthread_rwlock_wrlock(&rwlock)
                 : i % 5 == 1 ? pthread_rwlock_timedwrlock(&rwlock, &t)
                 : i % 5 == 2 ? pthread_rwlock_timedrdlock(&rwlock, &t)
                              : pthread_rwlock_rdlock(&rwlock);
    if (result == 0) {
        pass_us(turn_us);
        pthread_rwlock_unlock(&rwlock);
    }
}

static void *tries(void *arg)
{
    for (long i = 0; i < turns || n_awaited < enough; i++) {
        try_turn(i + (intptr_t)arg);
        try_share(i + (intptr_t)arg);
    }
    return arg;
}

/* A wait that timed out after the last release counts at the next release. */
static void last_turn(void)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    pthread_rwlock_wrlock(&rwlock);
    pthread_rwlock_unlock(&rwlock);
}

/* ---- conditions ---------------------------------------------------------------------------------------------------
 */

static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int whose;

APART static void holds_then_waits(void)
{
    pthread_mutex_lock(&mutex);
    until_it_sleeps();
    pass_us(5000);
    whose = 1;
    while (whose == 1)
        pthread_cond_wait(&turned, &mutex);
    pthread_mutex_unlock(&mutex);
}

APART static void wants_it_meanwhile(void)
{
    says_it_takes();
    pthread_mutex_lock(&mutex);
    taker = 0;
    if (whose == 1) {
        whose = 0;
        pthread_cond_signal(&turned);
    }
    pthread_mutex_unlock(&mutex);
    usleep(1000);
}

static void *on_conditions(void *arg)
{
    if (arg) {
        while (!over)
            wants_it_meanwhile();
        return NULL;
    }
    for (int i = 0; i < 20; i++)
        holds_then_waits();
    over = true;
    return NULL;
}

/* ---- ends of waits ---------------------------------------------------------------------------------------------- */

static pthread_mutex_t robust;
static pthread_barrier_t is_held;
static mtx_t mtx;
static int wrong;

APART static void gives_up(void)
{
    struct timespec t = soon(10000);
    wrong += pthread_mutex_timedlock(&mutex, &t) != ETIMEDOUT;
}

APART static void gives_up_c11(void)
{
    struct timespec t = soon(10000);
    wrong += mtx_timedlock(&mtx, &t) != thrd_timedout;
}

APART static void gives_up_reading(void)
{
    struct timespec t = soon(10000);
    wrong += pthread_rwlock_timedrdlock(&rwlock, &t) != ETIMEDOUT;
}

static void *give_up(void *arg)
{
    for (int i = 0; i < 5; i++) {
        gives_up();
        gives_up_c11();
        gives_up_reading();
    }
    return arg;
}

static void *give_up_one(void *arg)
{
    gives_up_reading();
    return arg;
}

static void *dies_holding(void *arg)
{
    pthread_mutex_lock(&robust);
    pthread_barrier_wait(&is_held);
    until_it_sleeps();
    pass_us(50000);
    return arg;
}

APART static void inherits(void)
{
    says_it_takes();
    wrong +=
        pthread_mutex_lock(&robust) != EOWNERDEAD || pthread_mutex_consistent(&robust) || pthread_mutex_unlock(&robust);
}

/* A lock that is destroyed while held: no release follows at which its waits could count. */
static void end_held(void)
{
    pthread_t thread;
    pthread_rwlock_wrlock(&rwlock);
    pthread_create(&thread, NULL, give_up_one, NULL);
    pthread_join(thread, NULL);
    pthread_rwlock_destroy(&rwlock);
}

static int ends(void)
{
    pthread_t thread;
    pthread_mutexattr_t attributes;
    mtx_init(&mtx, mtx_timed);
    pthread_mutex_lock(&mutex);
    mtx_lock(&mtx);
    pthread_rwlock_wrlock(&rwlock);
    pthread_create(&thread, NULL, give_up, NULL);
    pthread_join(thread, NULL);
    pthread_rwlock_unlock(&rwlock);
    mtx_unlock(&mtx);
    pthread_mutex_unlock(&mutex);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    pthread_barrier_init(&is_held, NULL, 2);
    pthread_create(&thread, NULL, dies_holding, NULL);
    pthread_barrier_wait(&is_held);
    inherits();
    pthread_join(thread, NULL);
    end_held();
    return wrong;
}

/* ---- waits that the end of the process cuts off ----------------------------------------------------------------- */

APART static void waits_for_readers(void)
{
    says_it_takes();
    pthread_rwlock_wrlock(&rwlock);
}

APART static void waits_for_ever(void)
{
    says_it_takes();
    pthread_mutex_lock(&mutex);
}

static void *is_cut_off(void *arg)
{
    if (arg)
        waits_for_readers();
    else
        waits_for_ever();
    return arg;
}

APART static void reads_no_more(void)
{
    pthread_rwlock_unlock(&rwlock);
}

static int unfinished(void)
{
    pthread_t thread;
    turns = 500, turn_us = 20, enough = 50;
    run_threads(4, takes_turns);
    pthread_mutex_lock(&mutex);
    pthread_rwlock_rdlock(&rwlock);
    pthread_rwlock_rdlock(&rwlock);
    for (intptr_t i = 0; i < 2; i++) {
        pthread_create(&thread, NULL, is_cut_off, (void *)i);
        while (!taker)
            sched_yield();
        until_it_sleeps();
    }
    pass_us(5000);
    reads_no_more();
    pass_us(5000);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    long a = argc > 2 ? atol(argv[2]) : 0;
    turns = argc > 3 ? atol(argv[3]) : 0;
    turn_us = argc > 4 ? atol(argv[4]) : 0;
    enough = a * turns / 20;
    if (strcmp(what, "turns") == 0) {
        run_threads((int)a, takes_turns);
    } else if (strcmp(what, "measured") == 0) {
        turns = a, turn_us = argc > 3 ? atol(argv[3]) : 0, enough = turns / 10;
        run_threads(2, takes_turns);
        printf("%ld %lld\n", (long)n_awaited, (long long)awaited_ns);
    } else if (strcmp(what, "shared") == 0) {
        pthread_mutexattr_t shared;
        pthread_mutexattr_init(&shared);
        pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        pthread_mutex_init(&mutex, &shared);
        run_threads((int)a, takes_turns);
    } else if (strcmp(what, "robust") == 0) {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&mutex, &attributes);
        run_threads((int)a, takes_turns);
    } else if (strcmp(what, "unequal") == 0) {
        run_threads(1 + SHORT, unequal);
        tell_unequal();
    } else if (strcmp(what, "timeouts") == 0) {
        run_threads((int)a, tries);
        last_turn();
    } else if (strcmp(what, "ends") == 0) {
        return ends();
    } else if (strcmp(what, "unfinished") == 0) {
        return unfinished();
    } else if (strcmp(what, "conditions") == 0) {
        run_threads(2, on_conditions);
    } else if (strcmp(what, "single") == 0) {
        for (long i = 0; i < 1000; i++)
            take_turn();
    } else {
        return 2;
    }
    return 0;
}
