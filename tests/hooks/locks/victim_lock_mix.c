/* SPDX-License-Identifier: MIT */
/*
 * victim_lock_mix.c MS - all primitives at once, with more threads than cores, and allocations while locks are held; at
 * least 1000 turns of each thread. Each lock protects a count: if two threads had a turn at once, a count is lost.
 */
#include "../../support/locks.h"

#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <threads.h>

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

#define MANY 12
static struct {
    pthread_mutex_t plain, recursive, robust, inheriting;
    pthread_cond_t cond;
    sem_t sem;
    pthread_spinlock_t spin;
    pthread_barrier_t barrier;
    mtx_t mtx;
    cnd_t cnd;
    long counts[8]; /* each protected by its lock */
    long tickets;
} all;
static int64_t until;
static _Atomic long in_all;

static void *in_one_go(void *arg)
{
    free(malloc(100));
    return arg;
}

APART static void one_of_each(long i, unsigned *seed)
{
    struct timespec t = soon(200);
    char *p = NULL;
    switch (rand_r(seed) % 9) {
    case 0:
        pthread_mutex_lock(&all.plain);
        p = malloc(1 + (size_t)i % 3000);
        all.counts[0]++;
        sched_yield();
        free(p);
        pthread_mutex_unlock(&all.plain);
        break;
    case 1:
        pthread_mutex_lock(&all.recursive);
        pthread_mutex_lock(&all.recursive);
        all.counts[1]++;
        pthread_mutex_unlock(&all.recursive);
        pthread_mutex_unlock(&all.recursive);
        break;
    case 2:
        if (pthread_mutex_timedlock(&all.robust, &t) == 0) {
            all.counts[2]++;
            pthread_mutex_unlock(&all.robust);
        } else {
            atomic_fetch_sub(&in_all, 1);
        }
        break;
    case 3:
        pthread_mutex_lock(&all.inheriting);
        all.counts[3]++;
        pthread_mutex_unlock(&all.inheriting);
        break;
    case 4:
        pthread_spin_lock(&all.spin);
        all.counts[4]++;
        if (i % 4 == 0)
            sched_yield();
        pthread_spin_unlock(&all.spin);
        break;
    case 5:
        pthread_rwlock_wrlock(&rwlock);
        all.counts[5]++;
        sched_yield();
        pthread_rwlock_unlock(&rwlock);
        pthread_rwlock_rdlock(&rwlock);
        p = malloc(20);
        free(p);
        pthread_rwlock_unlock(&rwlock);
        break;
    case 6:
        sem_wait(&all.sem);
        sched_yield();
        sem_post(&all.sem);
        atomic_fetch_sub(&in_all, 1);
        break;
    case 7: /* a queue of tickets */
        pthread_mutex_lock(&all.plain);
        if (rand_r(seed) % 2) {
            all.tickets++;
            pthread_cond_signal(&all.cond);
        } else if (!all.tickets) {
            pthread_cond_timedwait(&all.cond, &all.plain, &t);
        }
        if (all.tickets)
            all.tickets--;
        all.counts[0]++;
        pthread_mutex_unlock(&all.plain);
        break;
    default:
        mtx_lock(&all.mtx);
        all.counts[6]++;
        if (i % 16 == 0)
            cnd_timedwait(&all.cnd, &all.mtx, &t);
        mtx_unlock(&all.mtx);
        break;
    }
    atomic_fetch_add(&in_all, 1);
}

static void *does_all(void *arg)
{
    unsigned seed = (unsigned)(intptr_t)arg + 1;
    for (long i = 0; i < 20 || now_ns() < until; i++)
        for (int n = 0; n < 50; n++)
            one_of_each(i * 50 + n, &seed);
    for (int i = 0; i < 3; i++)
        pthread_barrier_wait(&all.barrier);
    pthread_t t;
    pthread_create(&t, NULL, in_one_go, NULL);
    pthread_join(t, NULL);
    return NULL;
}

static int mixed(long ms)
{
    until = now_ns() + ms * 1000000;
    make(&all.plain, PTHREAD_MUTEX_NORMAL, 0, 0);
    make(&all.recursive, PTHREAD_MUTEX_RECURSIVE, 0, 0);
    make(&all.robust, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, 0);
    make(&all.inheriting, PTHREAD_MUTEX_ERRORCHECK, 0, PTHREAD_PRIO_INHERIT);
    pthread_cond_init(&all.cond, NULL);
    sem_init(&all.sem, 0, 1);
    pthread_spin_init(&all.spin, 0);
    pthread_barrier_init(&all.barrier, NULL, MANY);
    mtx_init(&all.mtx, mtx_plain);
    cnd_init(&all.cnd);
    run_threads(MANY, does_all);
    long sum = 0;
    for (int i = 0; i < 7; i++)
        sum += all.counts[i];
    puts(sum == in_all ? "every turn was one thread's alone" : "lost turns");
    return sum != in_all;
}

int main(int argc, char **argv)
{
    return argc == 2 ? mixed(atol(argv[1])) : 2;
}
