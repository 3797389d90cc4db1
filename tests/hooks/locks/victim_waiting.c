/* SPDX-License-Identifier: MIT */
/*
 * victim_waiting.c - threads that wait until the standard input ends:
 *
 *     victim_waiting deadlock    two threads each wait for the mutex that the other one holds, one for a condition
 *     victim_waiting once        one waits for a mutex that main holds; it prints how many ns its call took
 *     victim_waiting jump        as once, in a function that has jumped to pthread_mutex_lock; it prints nothing
 *     victim_waiting busy        four lock a mutex again and again, and hold it for a moment
 *     victim_waiting many N      N threads begin at once to wait for a mutex that main holds
 *
 * and ones that end by themselves:
 *
 *     victim_waiting two         two threads wait for a mutex that main holds, then for another one
 *     victim_waiting inlined     a thread waits for a mutex that main unlocks in a function that is inlined
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both;

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

__attribute__((noinline)) void *first_then_second(void *unused)
{
    pthread_mutex_lock(&first);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&second);
    return unused;
}

__attribute__((noinline)) void *second_then_first(void *unused)
{
    pthread_mutex_lock(&second);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&first);
    return unused;
}

__attribute__((noinline)) void *is_idle(void *unused)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    for (;;)
        pthread_cond_wait(&never, &mutex);
    return unused;
}

__attribute__((noinline)) void *waits_once(void *took)
{
    long long begin = now();
    pthread_mutex_lock(&first);
    *(long long *)took = now() - begin;
    pthread_mutex_unlock(&first);
    return NULL;
}

__attribute__((noinline)) void holds(void)
{
    char c;
    while (read(0, &c, 1) > 0)
        ;
    pthread_mutex_unlock(&first);
}

/* It has no frame while it waits. */
void asks_by_a_jump(pthread_mutex_t *);
__asm__(".text\n.globl asks_by_a_jump\n.type asks_by_a_jump, %function\nasks_by_a_jump:\n.cfi_startproc\n"
#if defined(__x86_64__)
        "jmp pthread_mutex_lock@PLT\n"
#else
        "b pthread_mutex_lock\n"
#endif
        ".cfi_endproc\n.size asks_by_a_jump, . - asks_by_a_jump\n");

__attribute__((noinline)) void *waits_below_a_jump(void *unused)
{
    asks_by_a_jump(&first);
    pthread_mutex_unlock(&first);
    return unused;
}

static pthread_mutex_t *wanted;
static _Atomic int waiter; /* the id of the thread that began last */

__attribute__((noinline)) void *waits_long(void *unused)
{
    waiter = (int)syscall(SYS_gettid);
    pthread_mutex_lock(wanted);
    pthread_mutex_unlock(wanted);
    return unused;
}

__attribute__((noinline)) void *waits_short(void *unused)
{
    waiter = (int)syscall(SYS_gettid);
    pthread_mutex_lock(wanted);
    pthread_mutex_unlock(wanted);
    return unused;
}

/* Starts a thread and returns when it sleeps. */
static pthread_t start_waiter(void *(*run)(void *))
{
    pthread_t thread;
    char path[64], state = 0;
    waiter = 0;
    pthread_create(&thread, NULL, run, NULL);
    while (!waiter)
        sched_yield();
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", waiter);
    for (FILE *f; state != 'S' && (f = fopen(path, "r")); fclose(f))
        fscanf(f, "%*d %*s %c", &state);
    return thread;
}

static void start_waiters(pthread_mutex_t *mutex, pthread_t threads[2])
{
    pthread_mutex_lock(mutex);
    wanted = mutex;
    threads[0] = start_waiter(waits_long);
    usleep(50000);
    threads[1] = start_waiter(waits_short);
    usleep(50000);
}

static void join(const pthread_t threads[2])
{
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

__attribute__((noinline)) void holds_first(void)
{
    pthread_t threads[2];
    start_waiters(&first, threads);
    pthread_mutex_unlock(&first);
    join(threads);
}

__attribute__((noinline)) void holds_second(void)
{
    pthread_t threads[2];
    start_waiters(&second, threads);
    pthread_mutex_unlock(&second);
    join(threads);
}

static inline __attribute__((always_inline)) void lets_go(void)
{
    pthread_mutex_unlock(&first);
}

static inline __attribute__((always_inline)) void ends_its_turn(void)
{
    lets_go();
}

__attribute__((noinline)) void takes_its_turn(void)
{
    pthread_mutex_lock(&first);
    wanted = &first;
    pthread_t thread = start_waiter(waits_long);
    ends_its_turn();
    pthread_join(thread, NULL);
}

static _Atomic int n_ready;
static _Atomic bool begins;

__attribute__((noinline)) void *waits_with_many(void *unused)
{
    n_ready++;
    while (!begins)
        sched_yield();
    pthread_mutex_lock(&first);
    pthread_mutex_unlock(&first);
    return unused;
}

/* They end once the standard input does. */
static void wait_with(int n)
{
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    pthread_mutex_lock(&first);
    for (int i = 0; i < n; i++)
        if (pthread_create(&threads[i], &small, waits_with_many, NULL))
            _exit(77);
    while (n_ready < n)
        sched_yield();
    begins = true;
    holds();
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

__attribute__((noinline)) void *holds_for_a_moment(void *unused)
{
    struct timespec moment = {0, 100000};
    for (;;) {
        pthread_mutex_lock(&first);
        nanosleep(&moment, NULL);
        pthread_mutex_unlock(&first);
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[4];
    if (argc > 1 && !strcmp(argv[1], "busy")) {
        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, holds_for_a_moment, NULL);
        char end;
        while (read(0, &end, 1) > 0)
            ;
        exit(0);
    }
    if (argc > 2 && !strcmp(argv[1], "many")) {
        wait_with(atoi(argv[2]));
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "two")) {
        holds_first();
        holds_second();
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "inlined")) {
        takes_its_turn();
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "once")) {
        long long took;
        pthread_mutex_lock(&first);
        pthread_create(&threads[0], NULL, waits_once, &took);
        holds();
        pthread_join(threads[0], NULL);
        printf("%lld\n", took);
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "jump")) {
        pthread_mutex_lock(&first);
        pthread_create(&threads[0], NULL, waits_below_a_jump, NULL);
        holds();
        pthread_join(threads[0], NULL);
        return 0;
    }
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&threads[0], NULL, first_then_second, NULL);
    pthread_create(&threads[1], NULL, second_then_first, NULL);
    pthread_create(&threads[2], NULL, is_idle, NULL);
    char c;
    while (read(0, &c, 1) > 0)
        ;
    exit(0);
}
