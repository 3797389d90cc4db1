/* SPDX-License-Identifier: MIT */
/*
 * counted - linked into a program by --wrap: counts the blocks that the program's own code allocates, in any thread,
 * and their bytes, and writes both to standard error at the end. Calls that libc makes itself are not led here.
 */
#include <stdio.h>
#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);

static _Atomic long n_blocks, n_bytes;

static void *count(void *block, size_t size)
{
    if (block) {
        n_blocks++;
        n_bytes += (long)size;
    }
    return block;
}

void *__wrap_malloc(size_t size)
{
    return count(__real_malloc(size), size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return count(__real_calloc(n, size), n * size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return count(__real_realloc(old, size), size);
}

__attribute__((destructor)) static void print(void)
{
    fprintf(stderr, "counted %ld %ld\n", n_blocks, n_bytes);
}
