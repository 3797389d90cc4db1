/* SPDX-License-Identifier: MIT */
/*
 * bump.c - an allocator that signal handlers may call: it takes blocks from static memory by one atomic add, and free
 * does nothing. Preloaded behind the profiler: if a handler then deadlocks, the profiler is the cause.
 */
#include "../../support/never_freed.h"

#include <stdlib.h>

static char memory[(size_t)1 << 30] __attribute__((aligned(64)));
static size_t used;

EXPORT void *malloc(size_t n_bytes)
{
    size_t want = (n_bytes + 31) & ~(size_t)15, at = __atomic_fetch_add(&used, want, __ATOMIC_RELAXED);
    if (at + want > sizeof memory)
        return NULL;
    *(size_t *)(memory + at + 8) = n_bytes;
    return memory + at + 16;
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
