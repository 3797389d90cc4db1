/* SPDX-License-Identifier: MIT */
/*
 * host/resident/idle.h - tells which memory of this process was not used since a moment.
 *
 * At that moment the bits by which the kernel notes that pages are used are cleared (/proc/self/clear_refs). Later
 * smaps has, for each mapping, how much was read or written since. Which pages that were is told by no file; which
 * pages were written is told by the soft-dirty bits of pagemap, if the kernel has them (CONFIG_MEM_SOFT_DIRTY). The
 * kernel sets these for all pages of a mapping that has grown, so what counts as not written is a lower bound.
 *
 * Costs the program one page fault for each page that it writes first after the moment, with soft-dirty bits. Context:
 * a report that was asked for; reading it locks the address space mapping by mapping.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct dp_resident_idle {
    int64_t since_ns;        /* how long ago the moment was */
    int64_t resident_bytes;  /* of private anonymous memory, the profiler's left out */
    int64_t untouched_bytes; /* of these, at least: neither read nor written */
    bool has_pages;          /* pagemap tells which pages were written */
};

/* The moment is now. Two moments that overlap shorten the first: since_ns is that of the last one. */
void dp_resident_idle_begin(void);

/* 0, or a negative errno: nothing is known, since the bits were not cleared or smaps cannot be read. */
int dp_resident_idle_read(struct dp_resident_idle *);
