/* SPDX-License-Identifier: MIT */
/*
 * victim_pages STEPS [switch] - four threads allocate blocks in every way, as by calloc and posix_memalign. They resize
 * and free each other's blocks. They check each block: its alignment, its zeros if calloc made it, and its contents.
 * All blocks are freed before the end. With `switch`, a fifth thread changes the sampling rate all the time. If
 * PAGES_ERRNO is set, errno may change: some allocators change it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, PLACES = 512 };

/* A block in `places`. The thread that takes it out owns it. n: its size, header included. fill: each of `bytes`. */
struct block {
    size_t n;
    unsigned char fill;
    unsigned char bytes[];
};
static struct block *_Atomic places[PLACES];
static atomic_bool stop;
static long n_steps;
static bool errno_may_change;

extern void free_sized(void *ptr, size_t n) __attribute__((weak));

static void fail(const char *what)
{
    fprintf(stderr, "victim_pages: %s\n", what);
    _exit(9);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void fill(struct block *block, size_t n, unsigned char byte)
{
    block->n = n;
    block->fill = byte;
    memset(block->bytes, byte, n - sizeof *block);
}

static void check(const struct block *block, size_t n)
{
    for (size_t i = 0; i < n - sizeof *block; i++)
        if (block->bytes[i] != block->fill)
            fail("a block is not as it was filled");
}

/* Most are small; some are mapped by the allocator. */
static size_t some_size(uint64_t random)
{
    static const size_t most[] = {100, 100, 100, 1000, 1000, 5000, 20000, 300000};
    return sizeof(struct block) + (random >> 8) % most[random % 8];
}

static bool errno_is(int value)
{
    return errno == value || errno_may_change;
}

__attribute__((noinline)) static struct block *allocate(uint64_t random)
{
    size_t n = some_size(random), alignment = 1;
    void *ptr = NULL;
    errno = 77;
    switch (random >> 40 & 7) {
    default:
        ptr = malloc(n);
        break;
    case 3:
        ptr = calloc(1, n);
        for (size_t i = 0; ptr && i < n; i++)
            if (((char *)ptr)[i])
                fail("a block of calloc is not zero");
        break;
    case 4:
        alignment = (size_t)16 << (random >> 44) % 10;
        ptr = aligned_alloc(alignment, n);
        break;
    case 5:
        alignment = (size_t)16 << (random >> 44) % 10;
        if (posix_memalign(&ptr, alignment, n))
            fail("posix_memalign");
        break;
    case 6:
        ptr = realloc(NULL, n);
        break;
    }
    if (!ptr || !errno_is(77) || (uintptr_t)ptr % 16 || (uintptr_t)ptr % alignment || malloc_usable_size(ptr) < n)
        fail("a new block is wrong");
    fill(ptr, n, (unsigned char)random);
    return ptr;
}

__attribute__((noinline)) static struct block *resize(struct block *block, uint64_t random)
{
    size_t n_old = block->n, n = some_size(random);
    errno = 77;
    block = random >> 60 & 1 ? realloc(block, n) : reallocarray(block, n, 1);
    if (!block || !errno_is(77) || malloc_usable_size(block) < n)
        fail("a block of realloc is wrong");
    check(block, n < n_old ? n : n_old);
    fill(block, n, block->fill);
    return block;
}

static void drop(struct block *block, uint64_t random)
{
    check(block, block->n);
    errno = 78;
    if (free_sized && random >> 50 & 1)
        free_sized(block, block->n);
    else
        free(block);
    if (!errno_is(78))
        fail("free changed errno");
}

static void *work(void *seed)
{
    uint64_t random = 88172645463325252u + (uintptr_t)seed;
    for (long i = 0; i < n_steps; i++) {
        uint64_t r = next_random(&random);
        struct block *block = atomic_exchange(&places[r % PLACES], NULL);
        if (block && r >> 32 & 1)
            block = resize(block, next_random(&random));
        else if (block)
            drop(block, r), block = NULL;
        else
            block = allocate(next_random(&random));
        if (block)
            block = atomic_exchange(&places[next_random(&random) % PLACES], block);
        if (block)
            drop(block, next_random(&random));
    }
    return NULL;
}

static void *switch_rates(void *found)
{
    static const char *const rates[] = {"heap_rate=512k", "heap_rate=0", "heap_rate=300k", "heap_rate=1",
                                        "heap_rate=64k"};
    int (*set)(const char *) = (int (*)(const char *))found;
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        /* The rates 1 and 64k come late: after one of them, no sample of this process gets a page boundary any more. */
        if (set(rates[i % (i < 200 ? 3 : 5)]))
            fail("deltaprof_set");
        usleep(500);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS], switcher;
    n_steps = argc > 1 ? atol(argv[1]) : 1000;
    errno_may_change = getenv("PAGES_ERRNO") != NULL;
    void *set = argc > 2 ? dlsym(RTLD_DEFAULT, "deltaprof_set") : NULL;
    if (set)
        pthread_create(&switcher, NULL, switch_rates, set);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&stop, true);
    if (set)
        pthread_join(switcher, NULL);
    for (int i = 0; i < PLACES; i++) {
        struct block *block = atomic_exchange(&places[i], NULL);
        if (block)
            drop(block, 0);
    }
    puts("all blocks were right");
    return 0;
}
