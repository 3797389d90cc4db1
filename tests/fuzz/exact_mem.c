/* SPDX-License-Identifier: MIT */
/*
 * base/mem.h implemented by malloc, with vectors of exactly the needed size. It is linked instead of the real one, so
 * that ASan detects an access one byte beyond, which the unused part of a page would hide. At most 256 MiB in total, so
 * that lack of memory is tested too.
 */
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define CAP ((size_t)256 << 20)

static size_t used;

void dp_mem_cap(size_t cap_bytes) {}

size_t dp_mem_used(void)
{
    return used;
}

size_t dp_mem_left(void)
{
    return CAP - used;
}

void *dp_mem_map(size_t n_bytes)
{
    if (n_bytes > CAP - used)
        return NULL;
    void *p = aligned_alloc(64, (n_bytes + 64) & ~(size_t)63);
    if (p)
        memset(p, 0, n_bytes);
    used += p ? n_bytes : 0;
    return p;
}

void dp_mem_unmap(void *p, size_t n_bytes)
{
    used -= p ? n_bytes : 0;
    free(p);
}

void *dp_mem_remap(void *p, size_t old_bytes, size_t new_bytes)
{
    void *moved = dp_mem_map(new_bytes);
    if (moved && p) {
        memcpy(moved, p, old_bytes < new_bytes ? old_bytes : new_bytes);
        dp_mem_unmap(p, old_bytes);
    }
    return moved;
}

/* The exact size, but large vectors that grow step by step double: copying them at each step would take too long. */
void *dp_mem_vec_room(void **at, size_t *cap, size_t n, size_t want, size_t elem_bytes)
{
    if (want > *cap || !*at) {
        size_t grown = want > 1000 && want < 2 * *cap ? 2 * *cap : want, bytes;
        void *moved =
            __builtin_mul_overflow(grown, elem_bytes, &bytes) ? NULL : dp_mem_remap(*at, *cap * elem_bytes, bytes);
        if (!moved)
            return NULL;
        *at = moved;
        *cap = grown;
    }
    return (char *)*at + n * elem_bytes;
}
