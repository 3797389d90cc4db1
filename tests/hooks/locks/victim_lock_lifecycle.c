/* SPDX-License-Identifier: MIT */
/*
 * victim_lock_lifecycle.c - locks that are destroyed, abandoned or forked: victim_lock_lifecycle WHAT [ARGUMENT].
 *
 *   life       a mutex destroyed and initialized again, a holder that never unlocks, a thread that ends, fork while
 *              threads wait
 *   forks N    N children of a process whose threads contend; each has contending threads itself, and exits
 */
#include "../../support/locks.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* ---- life ------------------------------------------------------------------------------------------------------- */

static void *waits_in_vain(void *arg)
{
    struct timespec t = soon(20000);
    return (void *)(intptr_t)pthread_mutex_timedlock(arg, &t);
}

static _Atomic bool held;

static void *dies_holding(void *arg)
{
    pthread_mutex_lock(arg);
    held = true;
    usleep(20000);
    return NULL;
}

static void *waits_robustly(void *arg)
{
    while (!held)
        usleep(1000);
    int result = pthread_mutex_lock(arg);
    if (result == EOWNERDEAD)
        pthread_mutex_consistent(arg);
    pthread_mutex_unlock(arg);
    return (void *)(intptr_t)result;
}

static void *waits_across_fork(void *arg)
{
    says_it_takes();
    pthread_mutex_lock(arg);
    pthread_mutex_unlock(arg);
    return NULL;
}

static void *result_of(void *(*fn)(void *), void *arg)
{
    pthread_t t;
    void *value;
    pthread_create(&t, NULL, fn, arg);
    pthread_join(t, &value);
    return value;
}

APART static void lets_go(pthread_mutex_t *m)
{
    pthread_mutex_unlock(m);
}

static int life(void)
{
    int bad = 0;
    pthread_t t, u;
    void *value;
    /* A holder that never unlocks; then the memory becomes another mutex. */
    static pthread_mutex_t m;
    make(&m, PTHREAD_MUTEX_NORMAL, 0, 0);
    pthread_mutex_lock(&m);
    bad |= (intptr_t)result_of(waits_in_vain, &m) != ETIMEDOUT;
    make(&m, PTHREAD_MUTEX_NORMAL, 0, 0);
    pthread_mutex_lock(&m);
    bad |= (intptr_t)result_of(waits_in_vain, &m) != ETIMEDOUT;
    lets_go(&m);
    pthread_mutex_destroy(&m);
    /* A holder that ends. */
    make(&m, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, 0);
    pthread_create(&t, NULL, dies_holding, &m);
    pthread_create(&u, NULL, waits_robustly, &m);
    pthread_join(t, NULL);
    pthread_join(u, &value);
    bad |= (intptr_t)value != EOWNERDEAD;
    pthread_mutex_destroy(&m);
    /* fork while other threads wait: in the child none waits, and its own waits are recorded normally. */
    make(&m, PTHREAD_MUTEX_NORMAL, 0, 0);
    pthread_mutex_lock(&m);
    pthread_create(&t, NULL, waits_across_fork, &m);
    until_it_sleeps();
    pid_t child = fork();
    if (child == 0) {
        lets_go(&m);
        pthread_mutex_lock(&m);
        pthread_create(&t, NULL, waits_across_fork, &m);
        until_it_sleeps();
        usleep(10000);
        lets_go(&m);
        pthread_join(t, NULL);
        exit(bad);
    }
    int status;
    waitpid(child, &status, 0);
    bad |= status != 0;
    lets_go(&m);
    pthread_join(t, NULL);
    puts(bad ? "bad" : "good");
    return bad;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool over;
static _Atomic long n_wanting, n_awaited; /* threads that want the mutex; turns at whose end there was such a thread */
static long turns;

/* ---- forks ------------------------------------------------------------------------------------------------------ */

APART static void take_turn(void)
{
    n_wanting++;
    pthread_mutex_lock(&mutex);
    n_wanting--;
    pass_us(5);
    n_awaited += n_wanting > 0;
    pthread_mutex_unlock(&mutex);
}

/* A processor may run the threads one after the other: they go on until others waited in some turns. */
static void *takes_turns(void *arg)
{
    for (long i = 0; i < turns || n_awaited < 10; i++)
        take_turn();
    return arg;
}

static void *contends(void *arg)
{
    while (!over)
        take_turn();
    return arg;
}

static int forks(long n)
{
    pthread_t t[6];
    int bad = 0;
    for (int i = 0; i < 6; i++)
        pthread_create(&t[i], NULL, contends, NULL);
    for (long i = 0; i < n; i++) {
        pid_t child = fork();
        if (child == 0) {
            static pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER; /* the other mutex may stay locked for ever */
            mutex = fresh;
            turns = 50;
            n_wanting = n_awaited = 0;
            run_threads(3, takes_turns);
            exit(0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        bad |= status;
    }
    over = true;
    for (int i = 0; i < 6; i++)
        pthread_join(t[i], NULL);
    puts(bad ? "bad" : "good");
    return bad != 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "forks") == 0)
        return forks(atol(argv[2]));
    return argc == 2 && strcmp(argv[1], "life") == 0 ? life() : 2;
}
