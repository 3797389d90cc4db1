/* SPDX-License-Identifier: MIT */
/*
 * arena.c - a bump allocator in static memory, for the few allocations that dlsym makes during the search for the real
 * malloc.
 *
 * Each block has its size in the word before it. Blocks outlive the search (glibc keeps its error text, for example),
 * so free and realloc must always recognize them: they are marked in the filter, which costs other frees nothing.
 */
#include "arena.h"

#include "hook.h"

#include <errno.h>

DP_LARGE char dp_arena[DP_ARENA_BYTES] __attribute__((aligned(64)));
static size_t used;

enum { ALIGNMENT_MAX = 4096 };

void *dp_arena_alloc(size_t alignment, size_t n_bytes)
{
    if (alignment < 16)
        alignment = 16;
    if (n_bytes > DP_ARENA_BYTES || alignment > ALIGNMENT_MAX)
        goto full;
    /* Includes room for the alignment, so that a single atomic add reserves the block. */
    size_t want = (n_bytes + alignment + 2 * sizeof(size_t) + 15) & ~(size_t)15;
    size_t at = __atomic_fetch_add(&used, want, __ATOMIC_RELAXED);
    if (at + want > DP_ARENA_BYTES) {
        __atomic_fetch_sub(&used, want, __ATOMIC_RELAXED);
        goto full;
    }
    uintptr_t start = ((uintptr_t)dp_arena + at + sizeof(size_t) + alignment - 1) & ~(uintptr_t)(alignment - 1);
    ((size_t *)start)[-1] = n_bytes;
    deltaprof_filter_mark((void *)start, 1);
    return (void *)start;
full:
    errno = ENOMEM;
    return NULL;
}

bool dp_arena_is_unused(void)
{
    return !__atomic_load_n(&used, __ATOMIC_RELAXED);
}

size_t dp_arena_size(const void *ptr)
{
    return ((const size_t *)ptr)[-1];
}
