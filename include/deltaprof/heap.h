/* SPDX-License-Identifier: MIT */
/*
 * heap.h - events of heaps: blocks that are allocated and freed, and ranges of memory that are mapped and unmapped.
 *
 *     an allocator:                        an interposer:
 *       p = carve(n);                        if (!deltaprof_countdown_subtract(n, &rest)) {
 *       deltaprof_alloc(heap, p, n);             p = real(n);
 *       ...                                      deltaprof_countdown_restore(rest);
 *       deltaprof_free(heap, p);             } else {
 *       put_back(p);                             deltaprof_sample_begin(&sample, 0, n);
 *                                                p = real(n);
 *                                                deltaprof_sample_end(&sample, p, &site);
 *                                            }
 *
 * Context: as of hooks.h.
 */
#pragma once

#include <deltaprof/thread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- heaps ------------------------------------------------------------------------------------------------------- */

/*
 * A heap is a source of blocks. No two live blocks of one heap have the same address. Heap 0 is the C heap.
 *
 * Registers the heap `name`, or finds it if it is registered already. The name is copied; profiles show it as the label
 * `heap`. Returns the heap's id, 1 to 254; 0 if there is no room: its events then count as events of the C heap.
 * Context: any thread, not a hook.
 */
DELTAPROF_API uint32_t deltaprof_heap_register(const char *name);

/* The state of one sampled event between begin and end, on the stack of the hook. begin fills it; it need not be
 * zeroed. */
struct deltaprof_sample {
    uint64_t opaque[8];
};

/*
 * The sampled path of an interposer, after deltaprof_countdown_subtract returned true. begin guards the countdown and
 * determines the weight; then the interposer makes the real call; then end records ptr (NULL: the call failed, nothing
 * is recorded) and restores the countdown.
 */
DELTAPROF_API void deltaprof_sample_begin(struct deltaprof_sample *sample, uint32_t heap, size_t n_bytes);
DELTAPROF_API void deltaprof_sample_end(struct deltaprof_sample *sample, const void *ptr,
                                        const struct deltaprof_site *site);

/*
 * Between begin and end, of deltaprof_realloc too: leaves out the first n_frames of the stack, since they only pass the
 * allocation on: for a language in which a function cannot find the site of its caller. At most 255.
 */
DELTAPROF_API void deltaprof_sample_skip_frames(struct deltaprof_sample *sample, unsigned n_frames);

/* The sampled path of deltaprof_alloc. */
DELTAPROF_API void deltaprof_alloc_sampled(uint32_t heap, const void *ptr, size_t n_bytes);

/* A range of code. */
struct deltaprof_code {
    uintptr_t start, end;
};

/*
 * The same for a hook that an allocator calls from within: the stack begins at site, without the frames at its leaf end
 * whose code lies in the ranges, which are sorted and do not overlap. Returns an address in the code of the frame where
 * the stack then begins; 0: nothing was recorded, or a runtime gave that frame.
 */
DELTAPROF_API uintptr_t deltaprof_alloc_sampled_outside(uint32_t heap, const void *ptr, size_t n_bytes,
                                                        const struct deltaprof_site *site,
                                                        const struct deltaprof_code *ranges, size_t n_ranges);

/* A block of n_bytes was allocated at ptr by the calling function. Call it after the block exists. */
static inline __attribute__((always_inline)) void deltaprof_alloc(uint32_t heap, const void *ptr, size_t n_bytes)
{
    int64_t rest;
    if (deltaprof_countdown_subtract(n_bytes, &rest))
        deltaprof_alloc_sampled(heap, ptr, n_bytes);
    else
        deltaprof_countdown_restore(rest);
}

/* ---- frees ------------------------------------------------------------------------------------------------------- */

/*
 * A table of bytes, found by address; 0: certainly no sampled block is there. Each byte stands for 16 bytes of address
 * space. The bytes of 16 MiB follow each other in the table, from a page on that a hash selects. mask is the last index
 * of the table. It is read first, because the mask of the earlier, smaller table is in bounds of the later one.
 */
struct deltaprof_filter {
    uint64_t mask;
    const uint8_t *bytes;
};
extern DELTAPROF_API struct deltaprof_filter deltaprof_filter;

#define DELTAPROF_KEY(heap, ptr) ((uintptr_t)(ptr) ^ ((uintptr_t)(heap) << 56))

static inline __attribute__((always_inline)) uint64_t deltaprof_filter_index(uintptr_t key, uint64_t mask)
{
    uint64_t start = ((uint64_t)(key >> 24) * 0x9E3779B97F4A7C15u >> 32) * 4096;
    return (start + (key >> 4)) & mask;
}

/*
 * Returns false if the block is certainly not sampled; true if it may be: call deltaprof_free_sampled. NULL may give
 * true.
 */
static inline __attribute__((always_inline)) bool deltaprof_may_be_live(uint32_t heap, const void *ptr)
{
    uint64_t mask = __atomic_load_n(&deltaprof_filter.mask, __ATOMIC_ACQUIRE);
    const uint8_t *bytes = __atomic_load_n(&deltaprof_filter.bytes, __ATOMIC_RELAXED);
    uint64_t index = deltaprof_filter_index(DELTAPROF_KEY(heap, ptr), mask);
    return __builtin_expect(__atomic_load_n(&bytes[index], __ATOMIC_RELAXED) != 0, 0);
}

/*
 * Records that the block at ptr is going to be freed. Call it before the memory can be allocated again. NULL and
 * unknown addresses are ignored. A free is counted even under the guard.
 */
DELTAPROF_API void deltaprof_free_sampled(uint32_t heap, const void *ptr);

static inline __attribute__((always_inline)) void deltaprof_free(uint32_t heap, const void *ptr)
{
    if (deltaprof_may_be_live(heap, ptr))
        deltaprof_free_sampled(heap, ptr);
}

/*
 * Every block of a registered heap is about to be freed at once, as by an allocator that drops its arenas. It reads the
 * whole set of live blocks. No other thread may report a free of that heap meanwhile. Heap 0 is left alone. Context:
 * any thread, not a hook.
 */
DELTAPROF_API void deltaprof_heap_free_all(uint32_t heap);

/*
 * A realloc is a free of the old block and an alloc of the new size by its caller. Use these if
 * deltaprof_may_be_live(old) or deltaprof_countdown_subtract(n) returned true. begin takes the entry of the old block
 * out and keeps its slot reserved. end counts the free if done is set (the real call succeeded, or freed for size 0);
 * if not, it puts the entry back. ptr is as in deltaprof_sample_end.
 */
DELTAPROF_API void deltaprof_realloc_begin(struct deltaprof_sample *sample, uint32_t heap, const void *old,
                                           size_t n_bytes);
DELTAPROF_API void deltaprof_realloc_end(struct deltaprof_sample *sample, bool done, const void *ptr,
                                         const struct deltaprof_site *site);

/* ---- mappings ---------------------------------------------------------------------------------------------------- */

/* Set while the key `mmap` is on: only then need an interposer report mappings. Written by the library. */
extern DELTAPROF_API uint8_t deltaprof_maps_wanted;

/*
 * The caller whose site this is has mapped a range, after it did. It counts as a block of the heap `mmap`, with whole
 * pages; with DELTAPROF_MAP_FILE, of the heap `mmap-file`; with DELTAPROF_MAP_RESERVED, without access, it counts only
 * once deltaprof_map_accessible reports access to a part of it. Under the guard it does nothing.
 */
#define DELTAPROF_MAP_FILE     1u
#define DELTAPROF_MAP_RESERVED 2u
DELTAPROF_API void deltaprof_mapped(const void *start, size_t n_bytes, unsigned what,
                                    const struct deltaprof_site *site);
DELTAPROF_API void deltaprof_map_accessible(const void *start, size_t n_bytes, const struct deltaprof_site *site);

/* A range is going to be unmapped, or mapped over, in whole or in part. Call it before the range can be mapped again.
 */
DELTAPROF_API void deltaprof_unmapped(const void *start, size_t n_bytes);

/*
 * The same around a call that may fail. deltaprof_unmap_begin, before the call, returns a mark for deltaprof_unmap_end.
 * done: the call has unmapped the range. If not, the range still belongs to the code that mapped it.
 */
DELTAPROF_API uint32_t deltaprof_unmap_begin(const void *start, size_t n_bytes);
DELTAPROF_API void deltaprof_unmap_end(uint32_t mark, const void *start, size_t n_bytes, bool done);

#ifdef __cplusplus
}
#endif
