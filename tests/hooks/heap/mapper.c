/* SPDX-License-Identifier: MIT */
/*
 * mapper.c - an allocator in a shared library that maps memory outside malloc, too: for the first question after the
 * size of a block, as jemalloc makes an arena for a thread then. Preloaded behind the profiler.
 */
#include "../../support/never_freed.h"

#include <sys/mman.h>

enum { BLOCKS_BYTES = 64 << 20, QUESTION_BYTES = 1 << 20 };

static char *blocks;
static size_t used;

/* Not a tail call, which would leave no frame of this library. */
static __attribute__((noinline)) char *map(size_t n_bytes)
{
    char *start = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

EXPORT void *malloc(size_t n_bytes)
{
    size_t want = (n_bytes + 31) & ~(size_t)15;
    if (!blocks)
        blocks = map(BLOCKS_BYTES);
    if (!blocks || used + want > BLOCKS_BYTES)
        return NULL;
    char *ptr = blocks + used + 16;
    *(size_t *)(ptr - 8) = n_bytes;
    used += want;
    return ptr;
}

EXPORT void *memalign(size_t alignment, size_t n_bytes)
{
    char *ptr = malloc(n_bytes + alignment + 16);
    if (ptr) {
        ptr += alignment - (size_t)ptr % alignment;
        *(size_t *)(ptr - 8) = n_bytes;
    }
    return ptr;
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t n_bytes)
{
    *out = memalign(alignment < 16 ? 16 : alignment, n_bytes);
    return 0;
}

EXPORT size_t malloc_usable_size(void *ptr)
{
    static char *arena;
    if (!arena)
        arena = map(QUESTION_BYTES);
    return ptr ? *(size_t *)((char *)ptr - 8) : 0;
}
