/* SPDX-License-Identifier: MIT */
/*
 * host/heap/lifetime.h - sums, by heap record, how long its freed blocks lived, how many of them were temporary (they
 * lived less than a millisecond), how many realloc moved, and how many were outgrown: their thread had just allocated
 * a block of the same record that is larger, by a quarter at least and four times at most, as a container does when it
 * grows. Off by default; it needs exact births (live_blocks.h).
 */
#pragma once

#include "host/heap/live_blocks.h"

/* Weighted as all values of samples are. */
struct dp_heap_lifetime {
    int64_t n_freed;     /* blocks of a known lifetime */
    int64_t n_temporary; /* of these: less than 1 ms */
    int64_t us;          /* the sum of their lifetimes, in microseconds: a sum of ns would overflow */
    int64_t temporary_bytes;
    int64_t n_moved, moved_bytes;       /* by realloc, which copied them */
    int64_t n_outgrown, outgrown_bytes; /* freed, after their content was copied: probably */
};

/* Maps the sums of n_records. -ENOMEM: there are none. Context: init. */
int dp_heap_lifetime_init(size_t n_records);
/* on: frees are measured. False takes no clock, which may be forbidden from now on. Context: any thread. */
void dp_heap_lifetime_tune(bool on);
/* Whether the sums are kept. */
bool dp_heap_lifetime_is_kept(void);

/* A sampled block was allocated. Context of the three: hook. */
void dp_heap_lifetime_began(dp_record_id record, uint32_t objects, uint64_t bytes);
/* The block of this entry is freed. */
void dp_heap_lifetime_ended(const struct dp_heap_live_block *entry);
/* realloc moved the block of this entry, which was at `key`: beside ended. */
void dp_heap_lifetime_moved(uintptr_t key, const struct dp_heap_live_block *entry);

/* The sums since start, or since the fork. Context: report. */
struct dp_heap_lifetime dp_heap_lifetime_read(dp_record_id id);

/* In a forked child: its sums begin at 0. One system call. */
void dp_heap_lifetime_fork_child(void);
