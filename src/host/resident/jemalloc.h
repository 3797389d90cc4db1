/* SPDX-License-Identifier: MIT */
/*
 * host/resident/jemalloc.h - asks jemalloc how much memory it holds that the program freed: the pages that its decay
 * gives back to the kernel, and free places in pages where blocks of the same size class are in use.
 *
 * jemalloc keeps small blocks of a size class in slabs. The pages of a slab go back when the last block in it is freed,
 * so what keeps the free places of a class are the blocks in use of that class. Pages of larger blocks, and of empty
 * slabs, are dirty when they are free: decay gives them back after dirty_decay_ms, but only while some thread allocates
 * or frees, or if background_thread is on.
 */
#pragma once

#include "host/resident/free_chunks.h"

typedef int (*dp_resident_mallctl_fn)(const char *name, void *old, size_t *n_old, void *new, size_t n_new);

enum { DP_JEMALLOC_CLASSES_MOST = 64 };

/* Zero: not known. */
struct dp_resident_jemalloc {
    unsigned n_classes;
    struct {
        size_t n_bytes;
        int64_t free_bytes, n_used;
    } classes[DP_JEMALLOC_CLASSES_MOST]; /* of slabs, by size */
};

/*
 * Learns the function mallctl of a jemalloc whose blocks the hooks see. If there are two jemallocs, neither is read.
 * Context: init.
 */
void dp_resident_jemalloc_learn(dp_resident_mallctl_fn mallctl);

/*
 * Adds what jemalloc says of its memory to *free. Adds nothing if the process has none, or one before 5.0, or one
 * without statistics. It takes jemalloc's locks, so not in a crash handler. Context: outside hooks, guarded.
 */
void dp_resident_jemalloc_read(struct dp_resident_jemalloc *, struct dp_resident_free *free);

/* The free bytes that a block pins: what is free in slabs of its class, divided by the blocks in use there. */
int64_t dp_resident_jemalloc_pinned_by(const struct dp_resident_jemalloc *, size_t n_bytes);
