/* SPDX-License-Identifier: MIT */
/*
 * malloc.c - hooks of the malloc family, which report allocations and frees.
 *
 * The usual path subtracts from the countdown, finds no sample due, and jumps to the real function; the sampled path is
 * a separate function (DP_DUE in hook.h). Where real functions may call each other (new[] calls new calls malloc), the
 * countdown is guarded meanwhile, so each event counts once, for the outermost caller. Results and errno are
 * the real function's. A free asks first whether its block may be a sample, by address or by the filter, and forgets it
 * before the memory can be handed out again.
 *
 * Where the gate (interpose.h) is open, a sample's block comes from the real memalign, and the real free takes it back
 * like any other. A large calloc keeps the allocator's pages that are known to be zero: nothing here writes to them.
 */
#include "allocator.h"
#include "arena.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* ---- functions that return a new block ---- */

/* An overflow becomes a size that cannot be allocated: the real function reports the error. */
static inline size_t product(size_t count, size_t size)
{
    size_t n;
    return __builtin_mul_overflow(count, size, &n) ? SIZE_MAX : n;
}

enum { ZEROED_MAX = 32 << 10, MOVED_MAX = 64 << 10 };

static void *zeroed_page(size_t n)
{
    void *ptr = n <= ZEROED_MAX ? dp_page_block(n) : NULL;
    return ptr ? memset(ptr, 0, n) : NULL;
}

/* Raises a usual alignment to a page. Any other one is passed on: functions differ in how they treat it. */
static size_t page_aligned(size_t alignment)
{
    bool plain = alignment >= sizeof(void *) && (alignment & (alignment - 1)) == 0;
    return plain && alignment < DELTAPROF_PAGE_BYTES ? DELTAPROF_PAGE_BYTES : alignment;
}

ALLOCATOR(malloc, (size_t n), (n), n, dp_page_block(n), NULL, true)
ALLOCATOR(calloc, (size_t count, size_t size), (count, size), product(count, size), zeroed_page(product(count, size)),
          NULL, true)
ALLOCATOR(aligned_alloc, (size_t alignment, size_t n), (alignment, n), n,
          DP_REAL(aligned_alloc)(page_aligned(alignment), dp_page_block_size(n)), NULL, true)
ALLOCATOR(memalign, (size_t alignment, size_t n), (alignment, n), n, DP_REAL(memalign)(page_aligned(alignment), n),
          NULL, true)
ALLOCATOR(valloc, (size_t n), (n), n, NULL, NULL, true)
ALLOCATOR(pvalloc, (size_t n), (n), n, NULL, NULL, true)

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

/* A block of the arena can only be copied. */
static void *move_from_arena(void *old, size_t n)
{
    void *ptr = DP_REAL(malloc)(n);
    if (ptr) {
        size_t size = dp_arena_size(old);
        memcpy(ptr, old, size < n ? size : n);
    }
    return ptr;
}

/*
 * Moves the block that realloc made of `old` to a page boundary, if that costs little. A block that shrank in place is
 * not moved: libc never moves such a block, and a program may rely on that.
 */
static void *move_to_page(void *ptr, const void *old, size_t n_old, size_t n)
{
    if ((ptr == old && n <= n_old) || n > MOVED_MAX || ((uintptr_t)ptr & DELTAPROF_PAGE_MASK) == 0)
        return ptr;
    int saved_errno = errno;
    void *page = dp_page_block(n);
    if (page) {
        memcpy(page, ptr, n);
        DP_REAL(free)(ptr);
    }
    errno = saved_errno;
    return page ? page : ptr;
}

DP_DUE void *realloc_due(void *old, size_t n)
{
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct deltaprof_sample sample;
    deltaprof_realloc_begin(&sample, 0, old, n);
    DP_GUARDED();
    bool wants_page = deltaprof_gate_wants_page(&DP_GATE, &sample);
    size_t n_old = wants_page ? malloc_usable_size(old) : 0; /* libc's function; needed only for a move to a page */
    void *ptr = dp_arena_owns(old) ? move_from_arena(old, n) : DP_REAL(realloc)(old, n);
    if (wants_page && ptr)
        ptr = move_to_page(ptr, old, n_old, n);
    /* realloc of a block to size 0 frees it and returns NULL. */
    deltaprof_realloc_end(&sample, ptr || (old && n == 0), ptr, &site);
    dp_edge(&site);
    return ptr;
}

DP_DUE void *realloc_guarded(void *old, size_t n)
{
    int64_t rest;
    if (deltaprof_gate_subtract(&DP_GATE, n, &rest))
        return realloc_due(old, n);
    DP_GUARDED();
    void *ptr = DP_REAL(realloc)(old, n);
    deltaprof_gate_restore(&DP_GATE, rest);
    return ptr;
}

/* For a block that is no sample. */
static inline __attribute__((always_inline)) void *realloc_other(void *old, size_t n)
{
    bool is_leaf = deltaprof_gate_is_leaf(&DP_GATE);
    if (!is_leaf && deltaprof_gate_heap_on(&DP_GATE))
        return realloc_guarded(old, n);
    if (is_leaf && deltaprof_gate_count(&DP_GATE, n))
        return realloc_due(old, n);
    return DP_REAL(realloc)(old, n);
}

/* A realloc of NULL is a malloc. */
DP_DUE void *realloc_asked(void *old, size_t n)
{
    bool is_sample = old && !deltaprof_gate_page_passes(&DP_GATE, old) && deltaprof_gate_may_be_live(&DP_GATE, old);
    return is_sample ? realloc_due(old, n) : realloc_other(old, n);
}

DP_HOOK void *realloc(void *old, size_t n)
{
    return deltaprof_gate_passes(&DP_GATE, old) ? realloc_other(old, n) : realloc_asked(old, n);
}

/* ---- functions that free ---- */

/* Prefetches the words before the block: the real free reads them after the search in the set of live blocks. */
DP_DUE void free_looked_up(void *ptr)
{
    __builtin_prefetch((const char *)ptr - 16, 1);
    if (deltaprof_gate_may_be_live(&DP_GATE, ptr)) {
        if (dp_arena_owns(ptr))
            return;
        deltaprof_free_sampled(0, ptr);
    }
    DP_REAL(free)(ptr);
}

/* Programs often free NULL, which is at a page boundary, and is never a sample. */
DP_DUE void free_asked(void *ptr)
{
    if (!ptr || deltaprof_gate_page_passes(&DP_GATE, ptr))
        DP_REAL(free)(ptr);
    else
        free_looked_up(ptr);
}

DP_HOOK void free(void *ptr)
{
    if (deltaprof_gate_passes(&DP_GATE, ptr))
        DP_REAL(free)(ptr);
    else
        free_asked(ptr);
}
