/* SPDX-License-Identifier: MIT */
/* More stacks than the least memory holds, some of whose blocks are freed. Prints the bytes that it allocated. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { STACKS = 20000, LEVELS = 16, BLOCK_BYTES = 100 };

static volatile int n_calls;

static void *left(unsigned path, int level);
static void *right(unsigned path, int level);

static void *next(unsigned path, int level)
{
    return path & 1 ? left(path >> 1, level - 1) : right(path >> 1, level - 1);
}

static __attribute__((noinline)) void *left(unsigned path, int level)
{
    void *block = level ? next(path, level) : malloc(BLOCK_BYTES);
    n_calls++;
    return block;
}

static __attribute__((noinline)) void *right(unsigned path, int level)
{
    void *block = level ? next(path, level) : malloc(BLOCK_BYTES);
    n_calls++;
    return block;
}

int main(void)
{
    for (unsigned path = 0; path < STACKS; path++) {
        void *block = left(path, LEVELS);
        if (path % 3)
            free(block);
        if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
            return 1;
    }
    printf("%d\n", STACKS * BLOCK_BYTES);
    return 0;
}
