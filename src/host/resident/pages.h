/* SPDX-License-Identifier: MIT */
/*
 * host/resident/pages.h - counts the anonymous resident pages of address ranges of this process.
 *
 * Which pages are resident comes from /proc/self/pagemap, a word for each page. Unlike smaps it locks the address space
 * for 2 MiB at a time, so that no thread of the program waits for it. A process that changed its user may not read it:
 * then mincore says which pages are in memory, and all pages of writable file mappings that are count as private. A
 * page that was only read is the kernel's page of zeros, which pagemap does not tell from one shared with a forked
 * process: of pages that are not this process's alone, as many count as RssAnon leaves room for. Of address space
 * beyond DP_PAGES_LOOKED_AT every k-th piece is looked at and counts k times.
 *
 * Plain system calls: safe in a forked child.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DP_PAGES_PIECE     ((size_t)512)     /* pages; of 4 KiB: a table of the last level */
#define DP_PAGES_LOOKED_AT ((size_t)1 << 30) /* bytes */

/* In a word of pagemap. */
#define DP_PAGES_PRESENT (UINT64_C(1) << 63)
#define DP_PAGES_SWAPPED (UINT64_C(1) << 62)
#define DP_PAGES_WRITTEN (UINT64_C(1) << 55) /* soft-dirty: since the bits were cleared, or the mapping is newer */

/* Pages mapped once, and the others. */
struct dp_resident_pages_count {
    size_t n_sole, n_others;
};

struct dp_resident_pages {
    int pagemap;         /* -1: mincore is asked */
    size_t step;         /* one piece of so many is looked at */
    double others_share; /* of pages that are mapped more than once, those that are no page of zeros */
};

/* The words of n_pages from `start`, at most DP_PAGES_PIECE. The number that the kernel gave. */
size_t dp_resident_pages_words(const struct dp_resident_pages *, uint64_t *words, uintptr_t start, size_t n_pages);

/* Counts the anonymous resident pages of a range, looking at one piece of every `step` only. */
struct dp_resident_pages_count dp_resident_pages_look(const struct dp_resident_pages *, uintptr_t start, uintptr_t end);
/* Bytes of what was counted, less the pages of zeros. */
int64_t dp_resident_pages_bytes(const struct dp_resident_pages *, const struct dp_resident_pages_count *);
/* Both. */
int64_t dp_resident_pages_estimate(const struct dp_resident_pages *, uintptr_t start, uintptr_t end);
/* The number of anonymous resident pages among n_pages, all of which are looked at. */
size_t dp_resident_pages_exact(const struct dp_resident_pages *, uintptr_t start, size_t n_pages);
