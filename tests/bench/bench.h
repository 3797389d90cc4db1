/* SPDX-License-Identifier: MIT */
/*
 * tests/bench/bench.h - measures both sides of a comparison in one run: rounds alternate between them, and the medians
 * are printed as `name value unit`. DP_BENCH_ROUNDS in the environment is the number of rounds; 15 by default.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BENCH_ROUNDS_MAX 1001

static inline int bench_rounds(void)
{
    const char *text = getenv("DP_BENCH_ROUNDS");
    int n = text ? atoi(text) : 15;
    return n < 1 ? 1 : n > BENCH_ROUNDS_MAX ? BENCH_ROUNDS_MAX : n;
}

static inline double bench_clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double bench_median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, bench_compare);
    return values[n / 2];
}

static inline void bench_print(const char *name, double value, const char *unit)
{
    printf("%s %.2f %s\n", name, value, unit);
    fflush(stdout);
}

/*
 * fn(thread, n) does n operations. Runs it in n_threads threads that start together. Returns processor time in ns per
 * operation, which can be compared even with more threads than processors.
 */
typedef void (*bench_fn)(unsigned thread, long n);
struct bench_thread {
    pthread_t thread;
    pthread_barrier_t *start;
    bench_fn fn;
    unsigned number;
    long n;
    double ns;
};
static inline void *bench_thread_run(void *arg)
{
    struct bench_thread *t = arg;
    t->fn(t->number, t->n / 8); /* warm */
    pthread_barrier_wait(t->start);
    double begin = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    t->fn(t->number, t->n);
    t->ns = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
    return NULL;
}
static inline double bench_threads(unsigned n_threads, bench_fn fn, long n)
{
    struct bench_thread t[64];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, n_threads);
    for (unsigned i = 0; i < n_threads; i++) {
        t[i] = (struct bench_thread){.start = &start, .fn = fn, .number = i, .n = n};
        if (pthread_create(&t[i].thread, NULL, bench_thread_run, &t[i]))
            abort();
    }
    double sum = 0;
    for (unsigned i = 0; i < n_threads; i++) {
        pthread_join(t[i].thread, NULL);
        sum += t[i].ns;
    }
    pthread_barrier_destroy(&start);
    return sum / ((double)n * n_threads);
}

/*
 * The call site, 0 .. BENCH_SITES - 1, of frame `level` (0: the root) of record i, in stacks of BENCH_DEPTH that form a
 * tree: a level has 2^(level/2) nodes, the last has one for each record.
 */
enum { BENCH_DEPTH = 32, BENCH_SITES = 10000 };

static inline uint64_t bench_mix(uint64_t x)
{
    x ^= x >> 32, x *= 0xE9846AF9B1A615D5u;
    x ^= x >> 32, x *= 0xE9846AF9B1A615D5u;
    return x ^ x >> 28;
}

static inline size_t bench_call_site(size_t i, unsigned level)
{
    size_t nodes = (size_t)1 << level / 2;
    uint64_t node = level < BENCH_DEPTH - 1 ? bench_mix(i) % nodes : i;
    return bench_mix(node * 64 + level) % BENCH_SITES;
}
