/* SPDX-License-Identifier: MIT */
/* arena.h - memory for allocations before the real functions are known: dlsym itself may allocate. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DP_ARENA_BYTES = 64 << 10 };
extern char dp_arena[DP_ARENA_BYTES] __attribute__((visibility("hidden")));

/* Allocates zeroed memory that is never freed and is marked in the filter. NULL: the arena is used up. Any thread. */
void *dp_arena_alloc(size_t alignment, size_t n_bytes);

bool dp_arena_is_unused(void);
static inline bool dp_arena_owns(const void *ptr)
{
    return (uintptr_t)ptr - (uintptr_t)dp_arena < DP_ARENA_BYTES;
}
size_t dp_arena_size(const void *ptr); /* the size as requested */
