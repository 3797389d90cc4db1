/* SPDX-License-Identifier: MIT */
/*
 * pair PAIRS DEPTH THREADS LIVE SIZE - mallocs and frees PAIRS times in each thread, DEPTH frames down, beside LIVE
 * blocks of 1 MiB that are never touched; prints nanoseconds a pair, the best of nine batches.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long n_pairs;
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
        for (long i = 0; i < n_pairs / 9; i++) {
            void *ptr = malloc(size);
            __asm__ volatile("" : "+r"(ptr)::"memory");
            free(ptr);
        }
        result = (now_ns() - start) / (double)(n_pairs / 9);
    }
    __asm__ volatile("" ::: "memory");
    return result;
}

static void *run(void *best)
{
    for (int i = 0; i < 9; i++) {
        double ns = batch(depth);
        if (ns < *(double *)best)
            *(double *)best = ns;
    }
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
    double best[16] = {1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9}, sum = 0;
    pthread_t threads[16];
    for (int i = 1; i < n_threads && i < 16; i++)
        pthread_create(&threads[i], NULL, run, &best[i]);
    run(&best[0]);
    for (int i = 1; i < n_threads && i < 16; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < n_threads && i < 16; i++)
        sum += best[i] / n_threads;
    printf("%.3f\n", sum);
    return 0;
}
