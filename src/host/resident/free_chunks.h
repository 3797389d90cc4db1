/* SPDX-License-Identifier: MIT */
/*
 * host/resident/free_chunks.h - measures the memory that the program freed and glibc's malloc still holds: the pages
 * that malloc_trim would return to the kernel, and those that it cannot return because a block in use lies in them.
 *
 * glibc puts a header of two words before each chunk: the size of the chunk before, if that is free, and its own size,
 * whose lowest bit says whether the one before is in use. So the chunks of a heap are a chain from its begin to its
 * end, which is followed here through /proc/self/mem, while other threads change it. Where the chain breaks, the
 * rest of the heap is unknown, and counted as such. Small chunks in a fastbin are found as well. Chunks in a thread's
 * cache (tcache) count as in use, as they do for malloc_trim.
 */
#pragma once

#include "base/vma.h"
#include "host/resident/block_pages.h"

#include <stdbool.h>

/* All are bytes that are resident or swapped, unless stated otherwise. */
struct dp_resident_free {
    int64_t trim_bytes;    /* malloc_trim(0) would return them */
    int64_t pinned_bytes;  /* free, but in pages where a block is in use */
    int64_t arena_bytes;   /* free in the arenas of threads: of trim_bytes, of pinned_bytes, and unused at their ends */
    int64_t top_bytes;     /* of that: at their ends, which malloc_trim leaves */
    int64_t cached_bytes;  /* free chunks in the caches of threads */
    int64_t n_arenas;      /* of threads; a number, not bytes */
    int64_t heap_bytes;    /* of all heaps, resident or not */
    int64_t unknown_bytes; /* of heap_bytes: behind a broken chain */
    int64_t decay_bytes;   /* pages of jemalloc that no block is in, for decay to give back; resident or not */
    int64_t n_jemalloc;    /* 1: pinned_bytes and cached_bytes are jemalloc's */
    int64_t n_background, n_never_decay; /* 1: its background threads are on; 1: its decay is off */
};

/*
 * How much of a page is free, and how many chunks in use are in it. is_shaped: what is free near it may be left over
 * from the placing of a sampled block at the begin of a page.
 */
struct dp_resident_page_use {
    uint16_t n_free, n_chunks;
    bool is_shaped;
};

struct dp_resident_free_heap {
    uintptr_t start, end;
    struct dp_resident_page_use *pages; /* one for each page; NULL: there was no memory for them */
};

enum { DP_FREE_HEAPS_MOST = 256 };

struct dp_resident_free_heaps {
    struct dp_resident_free sums;
    size_t n;
    struct dp_resident_free_heap at[DP_FREE_HEAPS_MOST]; /* in the order of their addresses */
};

/* Follows the heaps among the mappings, which are sorted and classified. */
void dp_resident_free_find(struct dp_resident_free_heaps *, struct dp_resident_block_reader *,
                           const struct dp_vma *vmas, size_t n_vmas);
void dp_resident_free_fini(struct dp_resident_free_heaps *);

/* Whether a sampled block may have been placed by the profiler, which has the C heap place most at the begin of a page.
 */
bool dp_resident_free_is_placed(uintptr_t start);

/* Marks the pages around a sampled block that was placed: the holes there are no example of the program's. */
void dp_resident_free_mark(struct dp_resident_free_heaps *, uintptr_t start, size_t n_bytes);

/*
 * The free bytes that a block of the C heap pins: of each page that it shares with free chunks, what is free in it,
 * divided by the number of chunks in use there. The sum over all blocks is pinned_bytes. -1: it lies in no heap.
 */
int64_t dp_resident_free_pinned_by(const struct dp_resident_free_heaps *, uintptr_t start, size_t n_bytes);

/*
 * The same of a block that was placed, as if the C heap had placed it like others: by what is free in the nearest pages
 * with blocks in use that are not marked. Without any nearby, what it pins itself.
 */
int64_t dp_resident_free_pinned_near(const struct dp_resident_free_heaps *, uintptr_t start, size_t n_bytes);
