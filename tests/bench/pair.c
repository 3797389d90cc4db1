/* SPDX-License-Identifier: MIT */
/*
 * pair PAIRS DEPTH THREADS LIVE SIZE - calls malloc(SIZE) and free PAIRS times in each thread, DEPTH frames down, while
 * LIVE untouched blocks of 1 MiB are in use. The pairs are divided into nine batches, which all threads begin together.
 * Prints nanoseconds a pair. With one thread: those of the fastest batch. With several: each thread's median, averaged
 * over the threads; the fastest batch may be one in which the other threads did not run.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCHES = 9 };

static long n_pairs;
static bool alone;
static pthread_barrier_t together;
static size_t size;
static int depth;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

__attribute__((noinline)) static double batch(int down)
{
    double result;
    if (down > 1) {
        result = batch(down - 1);
    } else {
        double start = now_ns();
        for (long i = 0; i < n_pairs / BATCHES; i++) {
            void *ptr = malloc(size);
            __asm__ volatile("" : "+r"(ptr)::"memory");
            free(ptr);
        }
        result = (now_ns() - start) / (double)(n_pairs / BATCHES);
    }
    __asm__ volatile("" ::: "memory");
    return result;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *run(void *result)
{
    double ns[BATCHES];
    for (int i = 0; i < BATCHES; i++) {
        pthread_barrier_wait(&together);
        ns[i] = batch(depth);
    }
    qsort(ns, BATCHES, sizeof *ns, ascending);
    *(double *)result = ns[alone ? 0 : BATCHES / 2];
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    n_pairs = atol(argv[1]);
    depth = atoi(argv[2]);
    int n_threads = atoi(argv[3]);
    long n_live = atol(argv[4]);
    size = (size_t)atol(argv[5]);
    for (long i = 0; i < n_live; i++)
        if (!malloc(1 << 20))
            return 3;
    double ns[16], sum = 0;
    pthread_t threads[16];
    if (n_threads < 1 || n_threads > 16)
        return 2;
    alone = n_threads == 1;
    pthread_barrier_init(&together, NULL, (unsigned)n_threads);
    for (int i = 1; i < n_threads; i++)
        pthread_create(&threads[i], NULL, run, &ns[i]);
    run(&ns[0]);
    for (int i = 1; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < n_threads; i++)
        sum += ns[i] / n_threads;
    printf("%.3f\n", sum);
    return 0;
}
