/* SPDX-License-Identifier: MIT */
/*
 * Allocates in short bursts, of which one is the highest, and frees all: usage victim_burst THREADS. At the height of a
 * burst all threads hold their blocks. Prints the bytes of `burst` and of `steady` that were in use at the peak.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCKS = 500, BLOCK_BYTES = 5000, ROUNDS = 20, HIGHEST = 7, STEADY_BYTES = 400000 };

static pthread_barrier_t meeting;

__attribute__((noinline)) static char *burst(size_t n_bytes)
{
    char *volatile block = malloc(n_bytes);
    return block;
}

__attribute__((noinline)) static char *steady(size_t n_bytes)
{
    char *volatile block = malloc(n_bytes);
    return block;
}

static void *run(void *unused)
{
    static __thread char *blocks[2 * BLOCKS];
    for (int round = 0; round < ROUNDS; round++) {
        int n = round == HIGHEST ? 2 * BLOCKS : BLOCKS;
        for (int i = 0; i < n; i++)
            blocks[i] = burst(BLOCK_BYTES);
        pthread_barrier_wait(&meeting);
        for (int i = 0; i < n; i++)
            free(blocks[i]);
        pthread_barrier_wait(&meeting);
        usleep(5000);
    }
    return unused;
}

int main(int argc, char **argv)
{
    unsigned n_threads = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    pthread_t threads[64];
    char *kept = steady(STEADY_BYTES);
    pthread_barrier_init(&meeting, NULL, n_threads);
    for (unsigned i = 1; i < n_threads; i++)
        pthread_create(&threads[i], NULL, run, NULL);
    run(NULL);
    for (unsigned i = 1; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    free(kept);
    printf("%u %u\n", n_threads * 2 * BLOCKS * BLOCK_BYTES, STEADY_BYTES);
    return 0;
}
