/* SPDX-License-Identifier: MIT */
/*
 * threads pair THREADS MUTEX|RWLOCK|SEM N - ns for a pair of lock and unlock without contention, the best of nine
 *     batches; THREADS 1: there is no other thread, 2: another thread sleeps.
 * threads contended THREADS HELD_NS BETWEEN_NS MS - turns a millisecond of THREADS threads in one mutex.
 * threads busy THREADS TURNS - each thread by turns computes for some 40 us, allocates, locks, frees. Prints nothing.
 * threads idle THREADS SECONDS - threads that wait for a signal. Prints nothing.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t sem;

static void *sleeps(void *arg)
{
    pause();
    return arg;
}

#define PAIRS(name, lock, unlock)              \
    static void name(long n)                   \
    {                                          \
        for (long i = 0; i < n; i++) {         \
            lock;                              \
            __asm__ volatile("" ::: "memory"); \
            unlock;                            \
        }                                      \
    }
PAIRS(mutex_pairs, pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex))
PAIRS(rwlock_pairs, pthread_rwlock_rdlock(&rwlock), pthread_rwlock_unlock(&rwlock))
PAIRS(sem_pairs, sem_wait(&sem), sem_post(&sem))

static double pair(void (*pairs)(long), long n)
{
    double best = 1e9;
    for (int i = 0; i < 9; i++) {
        double start = clock_ns(CLOCK_MONOTONIC);
        pairs(n / 9);
        double ns = (clock_ns(CLOCK_MONOTONIC) - start) / (double)(n / 9);
        if (ns < best)
            best = ns;
    }
    return best;
}

/* ---- contended -------------------------------------------------------------------------------------------------- */

static double held_ns, between_ns;
static _Atomic int over;
static _Atomic long turns;

static void spend(double ns)
{
    for (double until = clock_ns(CLOCK_MONOTONIC) + ns; clock_ns(CLOCK_MONOTONIC) < until;)
        ;
}

static void *takes_turns(void *arg)
{
    long n = 0;
    for (; !over; n++) {
        pthread_mutex_lock(&mutex);
        spend(held_ns);
        pthread_mutex_unlock(&mutex);
        spend(between_ns);
    }
    turns += n;
    return arg;
}

static double contended(int n_threads, long ms)
{
    pthread_t t[64];
    double start = clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < n_threads && i < 64; i++)
        pthread_create(&t[i], NULL, takes_turns, NULL);
    usleep((useconds_t)ms * 1000);
    over = 1;
    for (int i = 0; i < n_threads && i < 64; i++)
        pthread_join(t[i], NULL);
    return (double)turns / ((clock_ns(CLOCK_MONOTONIC) - start) / 1e6);
}

/* ---- busy and idle ---------------------------------------------------------------------------------------------- */

static long n_turns;
static volatile uint64_t sum;

static __attribute__((noinline)) uint64_t mix(uint64_t hash)
{
    for (int i = 0; i < 40000; i++)
        hash = (hash ^ hash >> 31) * 0x9E3779B97F4A7C15u;
    return hash;
}

static void *works(void *seed)
{
    uint64_t hash = (uintptr_t)seed;
    for (long i = 0; i < n_turns; i++) {
        hash = mix(hash);
        char *block = malloc(64 + (hash & 1023));
        *(volatile char *)block = 1;
        pthread_mutex_lock(&mutex);
        sum += hash;
        pthread_mutex_unlock(&mutex);
        free(block);
    }
    return NULL;
}

static void busy(int n_threads)
{
    pthread_t t[64];
    for (int i = 0; i < n_threads && i < 64; i++)
        pthread_create(&t[i], NULL, works, (void *)(uintptr_t)i);
    for (int i = 0; i < n_threads && i < 64; i++)
        pthread_join(t[i], NULL);
}

static void idle(int n_threads, unsigned seconds)
{
    pthread_attr_t small;
    pthread_t t;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 16);
    for (int i = 0; i < n_threads; i++)
        pthread_create(&t, &small, sleeps, NULL);
    free(malloc(1 << 20)); /* a sample */
    sleep(seconds);
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "busy") == 0) {
        n_turns = atol(argv[3]);
        busy(atoi(argv[2]));
        return 0;
    }
    if (argc == 4 && strcmp(argv[1], "idle") == 0)
        idle(atoi(argv[2]), (unsigned)atoi(argv[3]));
    if (argc < 5)
        return 2;
    if (strcmp(argv[1], "contended") == 0) {
        held_ns = atof(argv[3]);
        between_ns = atof(argv[4]);
        printf("%.3f\n", contended(atoi(argv[2]), argc > 5 ? atol(argv[5]) : 500));
        return 0;
    }
    pthread_t t;
    if (atoi(argv[2]) > 1)
        pthread_create(&t, NULL, sleeps, NULL);
    sem_init(&sem, 0, 1);
    printf("%.3f\n", pair(argv[3][0] == 'M'   ? mutex_pairs
                          : argv[3][0] == 'R' ? rwlock_pairs
                                              : sem_pairs,
                          atol(argv[4])));
    return 0;
}
