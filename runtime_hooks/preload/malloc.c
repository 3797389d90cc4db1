/* SPDX-License-Identifier: MIT */
/*
 * malloc.c - the malloc family, as events.
 *
 * A hook subtracts, sees no sample, calls the real function and writes the thread's countdown back; what is sampled
 * goes to a function of its own (DP_DUE in hook.h). Real functions that call each other (new[] calls new calls malloc)
 * find the countdown guarded, so each event counts once, for the outermost caller. Results and errno are the real
 * function's. A free asks the filter first and forgets before the memory can be handed out again.
 */
#include "allocator.h"
#include "arena.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* ---- functions that return a new block ---- */

/* An overflow is a request that cannot be met: the real function says so. */
static inline size_t product(size_t count, size_t size)
{
    size_t n;
    return __builtin_mul_overflow(count, size, &n) ? SIZE_MAX : n;
}

ALLOCATOR(malloc, (size_t n), (n), n)
ALLOCATOR(calloc, (size_t count, size_t size), (count, size), product(count, size))
ALLOCATOR(aligned_alloc, (size_t alignment, size_t n), (alignment, n), n)
ALLOCATOR(memalign, (size_t alignment, size_t n), (alignment, n), n)
ALLOCATOR(valloc, (size_t n), (n), n)
ALLOCATOR(pvalloc, (size_t n), (n), n)

DP_DUE int posix_memalign_due(void **out, size_t alignment, size_t n)
{
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct deltaprof_sample sample;
    deltaprof_sample_begin(&sample, 0, n);
    DP_GUARDED();
    int err = DP_REAL(posix_memalign)(out, alignment, n);
    deltaprof_sample_end(&sample, err ? NULL : *out, &site);
    dp_edge(&site);
    return err;
}

DP_HOOK int posix_memalign(void **out, size_t alignment, size_t n)
{
    int64_t rest;
    if (deltaprof_countdown_subtract(n, &rest))
        return posix_memalign_due(out, alignment, n);
    DP_GUARDED();
    int err = DP_REAL(posix_memalign)(out, alignment, n);
    deltaprof_countdown_restore(rest);
    return err;
}

/* ---- realloc ---- */

/* Out of the arena a block can only be copied. */
static void *move_from_arena(void *old, size_t n)
{
    void *ptr = DP_REAL(malloc)(n);
    if (ptr) {
        size_t size = dp_arena_size(old);
        memcpy(ptr, old, size < n ? size : n);
    }
    return ptr;
}

DP_DUE void *realloc_due(void *old, size_t n)
{
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct deltaprof_sample sample;
    deltaprof_realloc_begin(&sample, 0, old, n);
    DP_GUARDED();
    void *ptr = dp_arena_owns(old) ? move_from_arena(old, n) : DP_REAL(realloc)(old, n);
    /* A realloc to nothing frees and returns NULL; with a block that is what NULL means there. */
    deltaprof_realloc_end(&sample, ptr || (old && n == 0), ptr, &site);
    dp_edge(&site);
    return ptr;
}

DP_HOOK void *realloc(void *old, size_t n)
{
    int64_t rest;
    if (deltaprof_may_be_live(0, old) || deltaprof_countdown_subtract(n, &rest))
        return realloc_due(old, n);
    DP_GUARDED();
    void *ptr = DP_REAL(realloc)(old, n);
    deltaprof_countdown_restore(rest);
    return ptr;
}

DP_HOOK void *reallocarray(void *old, size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n)) {
        errno = ENOMEM;
        return NULL;
    }
    int64_t rest;
    if (deltaprof_may_be_live(0, old) || deltaprof_countdown_subtract(n, &rest))
        return realloc_due(old, n);
    DP_GUARDED();
    void *ptr = DP_REAL(realloc)(old, n);
    deltaprof_countdown_restore(rest);
    return ptr;
}

/* ---- functions that free ---- */

DP_DUE void free_due(void *ptr)
{
    if (dp_arena_owns(ptr))
        return;
    deltaprof_free_sampled(0, ptr);
    DP_REAL(free)(ptr);
}

DP_HOOK void free(void *ptr)
{
    if (deltaprof_may_be_live(0, ptr))
        free_due(ptr);
    else
        DP_REAL(free)(ptr);
}

/* By their definition the same as free. */
#define FREE(name, parameters)    \
    DP_HOOK void name parameters; \
    DP_HOOK void name parameters  \
    {                             \
        free(ptr);                \
    }
FREE(cfree, (void *ptr))
FREE(free_sized, (void *ptr, size_t n))
FREE(free_aligned_sized, (void *ptr, size_t alignment, size_t n))
