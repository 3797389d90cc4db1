/* SPDX-License-Identifier: MIT */
/*
 * victim_locks.c - programs about locks that know by their own clocks what happened: victim_locks WHAT [ARGUMENT].
 *
 *   turns THREADS N US     THREADS x N turns in one mutex, US each
 *   unequal                one thread holds for 10 ms, nine for 10 us; prints FUNCTION NANOSECONDS of waiting each
 * caused timeouts THREADS       as turns, where every third try is timed; rwlocks too mixed MS               every
 * primitive at once, more threads than cores, with allocations under the locks life                   a mutex destroyed
 * and made anew, a holder that never lets go, a thread that dies, fork while waiting single                 a process
 * without threads: nothing to see
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline))

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct timespec soon(long us)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += us * 1000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static void pass_us(long us)
{
    if (us >= 1000) {
        usleep((useconds_t)us);
        return;
    }
    for (int64_t until = now_ns() + us * 1000; now_ns() < until;)
        ;
}

static void run_threads(int n, void *(*fn)(void *))
{
    pthread_t *t = calloc((size_t)n, sizeof *t);
    for (intptr_t i = 0; i < n; i++)
        pthread_create(&t[i], NULL, fn, (void *)i);
    for (int i = 0; i < n; i++)
        pthread_join(t[i], NULL);
    free(t);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static long turns, turn_us;

/* ---- turns --------------------------------------------------------------------------------------------------------
 */

APART static void take_turn(void)
{
    pthread_mutex_lock(&mutex);
    pass_us(turn_us);
    pthread_mutex_unlock(&mutex);
}

static void *takes_turns(void *arg)
{
    for (long i = 0; i < turns; i++)
        take_turn();
    return arg;
}

/* ---- unequal ------------------------------------------------------------------------------------------------------
 */

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

/* What each function's tenures have in common with all waits. */
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

/* ---- timeouts -----------------------------------------------------------------------------------------------------
 */

APART static void try_turn(long i)
{
    struct timespec t = soon(20);
    int result = i % 3 ? pthread_mutex_lock(&mutex) : pthread_mutex_timedlock(&mutex, &t);
    if (result == 0) {
        pass_us(turn_us);
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
    for (long i = 0; i < turns; i++) {
        try_turn(i + (intptr_t)arg);
        try_share(i + (intptr_t)arg);
    }
    return arg;
}

/* A wait that timed out after the last release is paid by the next one. */
static void last_turn(void)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    pthread_rwlock_wrlock(&rwlock);
    pthread_rwlock_unlock(&rwlock);
}

/* ---- mixed --------------------------------------------------------------------------------------------------------
 */

#define MANY 12
static struct {
    pthread_mutex_t plain, recursive, robust, inheriting;
    pthread_cond_t cond;
    sem_t sem;
    pthread_spinlock_t spin;
    pthread_barrier_t barrier;
    mtx_t mtx;
    cnd_t cnd;
    long counts[8]; /* each under its lock */
    long tickets;
} all;
static int64_t until;
static _Atomic long in_all;

static void make(pthread_mutex_t *m, int type, int robust, int protocol)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, type);
    pthread_mutexattr_setrobust(&a, robust);
    pthread_mutexattr_setprotocol(&a, protocol);
    pthread_mutex_init(m, &a);
}

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
    for (long i = 0; now_ns() < until; i++)
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

/* ---- life ---------------------------------------------------------------------------------------------------------
 */

static void *waits_in_vain(void *arg)
{
    struct timespec t = soon(20000);
    return (void *)(intptr_t)pthread_mutex_timedlock(arg, &t);
}

static void *dies_holding(void *arg)
{
    pthread_mutex_lock(arg);
    usleep(20000);
    return NULL;
}

static void *waits_robustly(void *arg)
{
    usleep(5000);
    int result = pthread_mutex_lock(arg);
    if (result == EOWNERDEAD)
        pthread_mutex_consistent(arg);
    pthread_mutex_unlock(arg);
    return (void *)(intptr_t)result;
}

static void *waits_across_fork(void *arg)
{
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
    /* A holder that never lets go; then the memory becomes another mutex. */
    static pthread_mutex_t m;
    make(&m, PTHREAD_MUTEX_NORMAL, 0, 0);
    pthread_mutex_lock(&m);
    bad |= (intptr_t)result_of(waits_in_vain, &m) != ETIMEDOUT;
    make(&m, PTHREAD_MUTEX_NORMAL, 0, 0);
    pthread_mutex_lock(&m);
    bad |= (intptr_t)result_of(waits_in_vain, &m) != ETIMEDOUT;
    lets_go(&m);
    pthread_mutex_destroy(&m);
    /* A holder that dies. */
    make(&m, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, 0);
    pthread_create(&t, NULL, dies_holding, &m);
    pthread_create(&u, NULL, waits_robustly, &m);
    pthread_join(t, NULL);
    pthread_join(u, &value);
    bad |= (intptr_t)value != EOWNERDEAD;
    pthread_mutex_destroy(&m);
    /* fork while others wait: in the child nobody does, and its own waits are as good as any. */
    make(&m, PTHREAD_MUTEX_NORMAL, 0, 0);
    pthread_mutex_lock(&m);
    pthread_create(&t, NULL, waits_across_fork, &m);
    usleep(20000);
    pid_t child = fork();
    if (child == 0) {
        lets_go(&m);
        pthread_mutex_lock(&m);
        pthread_create(&t, NULL, waits_across_fork, &m);
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

/* ---- forks --------------------------------------------------------------------------------------------------------
 */

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
    turn_us = 5;
    for (int i = 0; i < 6; i++)
        pthread_create(&t[i], NULL, contends, NULL);
    for (long i = 0; i < n; i++) {
        pid_t child = fork();
        if (child == 0) {
            static pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER; /* the other may be held by nobody, for ever */
            mutex = fresh;
            turns = 50;
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
    const char *what = argc > 1 ? argv[1] : "";
    long a = argc > 2 ? atol(argv[2]) : 0;
    turns = argc > 3 ? atol(argv[3]) : 0;
    turn_us = argc > 4 ? atol(argv[4]) : 0;
    if (strcmp(what, "turns") == 0) {
        run_threads((int)a, takes_turns);
    } else if (strcmp(what, "shared") == 0) {
        pthread_mutexattr_t shared;
        pthread_mutexattr_init(&shared);
        pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        pthread_mutex_init(&mutex, &shared);
        run_threads((int)a, takes_turns);
    } else if (strcmp(what, "unequal") == 0) {
        run_threads(1 + SHORT, unequal);
        tell_unequal();
    } else if (strcmp(what, "timeouts") == 0) {
        run_threads((int)a, tries);
        last_turn();
    } else if (strcmp(what, "mixed") == 0) {
        return mixed(a);
    } else if (strcmp(what, "life") == 0) {
        return life();
    } else if (strcmp(what, "forks") == 0) {
        return forks(a);
    } else if (strcmp(what, "single") == 0) {
        for (long i = 0; i < 1000; i++)
            take_turn();
    } else {
        return 2;
    }
    return 0;
}
