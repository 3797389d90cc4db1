/* SPDX-License-Identifier: MIT */
/*
 * host/resident/chunks.h - finds the large blocks of glibc's malloc that have a mapping of their own.
 *
 * Such a block begins with a header of two words: 0, and the length of its mapping with the flag IS_MMAPPED. A block
 * that no sample shows is known by it. The kernel joins mappings that lie side by side, so a mapping of its list may
 * have several blocks, and other memory between them.
 *
 * The header is read through /proc/self/mem: the program may unmap the block meanwhile.
 */
#pragma once

#include "base/vma.h"
#include "host/resident/pages.h"

/* Blocks below are in malloc's heap, unless the program asked for something else. */
#define DP_CHUNKS_LEAST ((size_t)64 << 10)

/*
 * What a search may look at, counted down: resident pages without a header, and pages of any kind. A program may have
 * reserved terabytes of address space, of which it uses a little.
 */
struct dp_resident_chunks_limits {
    size_t misses, pages;
};

/*
 * The first such block at or behind `from` in a mapping: its start, and its length in *n_bytes. 0: there is none.
 * mem: /proc/self/mem, opened.
 */
uintptr_t dp_resident_chunks_next(int mem, const struct dp_resident_pages *, const struct dp_vma *vma, uintptr_t from,
                                  size_t *n_bytes, struct dp_resident_chunks_limits *);
