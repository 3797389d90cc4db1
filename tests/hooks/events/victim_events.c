/* SPDX-License-Identifier: MIT */
/*
 * victim_events [fork | many] - four threads, each of which allocates blocks of one size and then waits for a mutex
 * that the main thread holds. Prints `TID n_objects n_bytes wait_ns` a thread, and `begin NS` and `end NS`, Unix times.
 * With `fork` a child does the same after its parent did, and prints its pid; with `many` there are 20,000 blocks a
 * thread.
 */
#include "../../support/locks.h"

#include <sys/wait.h>

enum { THREADS = 4 };

static int n_objects = 200;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static char lines[THREADS][128];
static _Atomic int tids[THREADS];

static long long now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

__attribute__((noinline)) void *make_block(size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("" : "+r"(p));
    return p;
}

static void *work(void *arg)
{
    size_t i = (size_t)arg, n = 1000 + i;
    for (int k = 0; k < n_objects; k++)
        free(make_block(n));
    pthread_barrier_wait(&barrier);
    tids[i] = (int)syscall(SYS_gettid);
    long long begin = now(CLOCK_MONOTONIC);
    pthread_mutex_lock(&mutex);
    long long wait = now(CLOCK_MONOTONIC) - begin;
    pthread_mutex_unlock(&mutex);
    snprintf(lines[i], sizeof lines[i], "%ld %d %zu %lld", (long)syscall(SYS_gettid), n_objects, (size_t)n_objects * n,
             wait);
    return NULL;
}

static void round_of_threads(void)
{
    pthread_t t[THREADS];
    printf("begin %lld\n", now(CLOCK_REALTIME));
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < THREADS; i++)
        tids[i] = 0;
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, work, (void *)i);
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < THREADS; i++)
        while (!sleeps(tids[i]))
            usleep(100);
    usleep(5000);
    pthread_mutex_unlock(&mutex);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    for (size_t i = 0; i < THREADS; i++)
        puts(lines[i]);
    printf("end %lld\n", now(CLOCK_REALTIME));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "many"))
        n_objects = 20000;
    round_of_threads();
    if (argc > 1 && !strcmp(argv[1], "fork")) {
        pid_t pid = fork();
        if (!pid) {
            round_of_threads();
            exit(0);
        }
        waitpid(pid, NULL, 0);
        printf("child %d\n", (int)pid);
    }
    return 0;
}
