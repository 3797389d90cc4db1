/* SPDX-License-Identifier: MIT */
/*
 * heap WAY LIVE SIZE DEPTH THREADS STEPS - measures an allocator in a program with a large heap.
 *
 * Each thread keeps LIVE blocks. A step frees a random one and allocates another in its place, DEPTH frames down. SIZE
 * is the size of a block, or with a minus sign the largest of random sizes. WAY is `malloc` or `step`: `step` does
 * everything but the allocator's part, so that the cost of the random choice can be subtracted. Prints the median of
 * nine batches, in nanoseconds of processor time a step. As in real programs, the block that was freed last is rarely
 * allocated next, and the data that free reads about its block are rarely in a cache. A loop that frees each block at
 * once would not show that.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCHES = 9, MAX_THREADS = 16 };

static long n_live, n_steps, size;
static int depth;
static bool allocates;
static pthread_barrier_t together;

struct worker {
    pthread_t thread;
    uint64_t random;
    void **blocks;
    double ns;
};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* does not count the time of other programs */
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline uint64_t next_random(struct worker *worker)
{
    worker->random = worker->random * 6364136223846793005u + 1442695040888963407u;
    return worker->random >> 33;
}

static inline size_t next_size(struct worker *worker)
{
    return size >= 0 ? (size_t)size : 1 + next_random(worker) % (uint64_t)-size;
}

/* No tail call: each level has its own frame. */
__attribute__((noinline)) static void *allocate(size_t n, int down)
{
    void *block = down > 1 ? allocate(n, down - 1) : malloc(n);
    __asm__ volatile("" : "+r"(block)::"memory");
    return block;
}

static void step(struct worker *worker)
{
    uint64_t i = next_random(worker) % (uint64_t)n_live;
    size_t n = next_size(worker);
    if (allocates) {
        free(worker->blocks[i]);
        worker->blocks[i] = allocate(n, depth);
        *(char *)worker->blocks[i] = 1;
    } else {
        worker->blocks[i] = (char *)worker->blocks[i] + n;
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *run(void *arg)
{
    struct worker *worker = arg;
    double ns[BATCHES];
    for (long i = 0; allocates && i < n_live; i++)
        *(char *)(worker->blocks[i] = allocate(next_size(worker), depth)) = 1;
    for (long i = 0; i < 2 * n_live; i++)
        step(worker); /* afterwards neighbours in the array are no neighbours in memory */
    for (int batch = 0; batch < BATCHES; batch++) {
        pthread_barrier_wait(&together);
        double start = now_ns();
        for (long i = 0; i < n_steps / BATCHES; i++)
            step(worker);
        ns[batch] = (now_ns() - start) / (double)(n_steps / BATCHES);
    }
    qsort(ns, BATCHES, sizeof *ns, ascending);
    worker->ns = ns[BATCHES / 2];
    return NULL;
}

int main(int argc, char **argv)
{
    static struct worker workers[MAX_THREADS];
    if (argc < 7)
        return 2;
    allocates = strcmp(argv[1], "malloc") == 0;
    n_live = atol(argv[2]);
    size = atol(argv[3]);
    depth = atoi(argv[4]);
    int n_threads = atoi(argv[5]);
    n_steps = atol(argv[6]);
    if (n_threads < 1 || n_threads > MAX_THREADS || n_live < 1 || n_steps < BATCHES)
        return 2;
    pthread_barrier_init(&together, NULL, (unsigned)n_threads);
    for (int i = 0; i < n_threads; i++) {
        workers[i].random = (uint64_t)i + 1;
        workers[i].blocks = calloc((size_t)n_live, sizeof(void *));
        if (!workers[i].blocks)
            return 3;
    }
    for (int i = 1; i < n_threads; i++)
        pthread_create(&workers[i].thread, NULL, run, &workers[i]);
    run(&workers[0]);
    double sum = 0;
    for (int i = 0; i < n_threads; i++) {
        if (i)
            pthread_join(workers[i].thread, NULL);
        sum += workers[i].ns / n_threads;
    }
    printf("%.3f\n", sum);
    return 0;
}
