/* SPDX-License-Identifier: MIT */
/*
 * host/resident/block_pages.h - tells how much of a block is resident, swapped, or only zeros.
 *
 * Pages are told by pagemap, zeros by reading the block through /proc/self/mem: the program may free or unmap it
 * meanwhile. Only resident pages are read, so that no page comes into being or back from swap. A page of zeros that is
 * mapped elsewhere too is the kernel's own, of memory that was only read: it counts as absent.
 */
#pragma once

#include "host/resident/pages.h"

#define DP_BLOCK_READ_MOST  ((int64_t)1 << 30) /* bytes that are read for zeros; beyond it zeros are not counted */
#define DP_BLOCK_WINDOW     ((size_t)64 << 10)
#define DP_BLOCK_PIECES     128u /* of 2 MB, for pages of 4 kB */
#define DP_BLOCK_LINE_BYTES 64u  /* zeros are counted in whole cache lines, or in whole smaller pieces of a block */

/* Where the bytes of a block are. The rest was never written. */
struct dp_resident_block {
    int64_t resident_bytes, swapped_bytes;
    int64_t zero_bytes; /* of the resident ones: those that are zero */
    int64_t idle_bytes; /* of the resident ones: those on pages that were not written (idle.h) */
};

/*
 * What was read last. Blocks that lie near each other cost one system call for many. Large: to be mapped, so that only
 * what is used of it comes into being.
 */
struct dp_resident_block_reader {
    struct dp_resident_pages pages;
    int mem;            /* -1: zeros are not known */
    int64_t left_bytes; /* that may still be read */
    int64_t unread_bytes;
    struct dp_resident_block_piece {
        uintptr_t start;
        size_t n_words; /* 0: none was read */
        uint64_t words[DP_PAGES_PIECE];
    } pieces[DP_BLOCK_PIECES]; /* of pagemap, each in its place by its address */
    uintptr_t window_start;
    uint32_t has_read, is_used; /* a bit for each page of the window: was read, was asked for */
    size_t n_ahead;             /* pages that are read at once: 1 where blocks lie far from each other */
    unsigned char window[DP_BLOCK_WINDOW];
};

/* 0, or a negative errno: the kernel tells nothing about pages. */
int dp_resident_block_open(struct dp_resident_block_reader *);
void dp_resident_block_close(struct dp_resident_block_reader *);

/* Adds the block's bytes to *block. */
void dp_resident_block_look(struct dp_resident_block_reader *, uintptr_t start, size_t n_bytes,
                            struct dp_resident_block *block);

/* The word of pagemap for the page at `page`; 0: none. */
uint64_t dp_resident_block_word(struct dp_resident_block_reader *, uintptr_t page);
