/* SPDX-License-Identifier: MIT */
/*
 * host/heap/lifetime.h - statistics of freed blocks, summed by heap record. Off by default; they need exact times of
 * allocation (DP_BIRTHS_EXACT, live_blocks.h).
 *
 * Lifetime: from the allocation to free. Temporary: lived less than a millisecond. Moved: realloc copied it to another
 * place. Outgrown: the last block that its thread allocated is of the same record and 1.25 to 4 times as large, as when
 * a container grows.
 */
#pragma once

#include "host/heap/live_blocks.h"

/*
 * The sums of a record, in the order of the kind's types (profile/kinds.c): age.c copies them. Each sampled block
 * counts with its weight.
 */
struct dp_heap_lifetime {
    int64_t n_freed; /* freed blocks whose time of allocation is known */
    int64_t n_temporary;
    int64_t us; /* the sum of the lifetimes of those freed, in microseconds: a sum of nanoseconds would overflow */
    int64_t temporary_bytes;
    int64_t n_moved, moved_bytes;
    int64_t n_outgrown, outgrown_bytes;
};

/* Maps the sums of n_records. -ENOMEM: nothing is summed. Context: init. */
int dp_heap_lifetime_init(size_t n_records);
/* Turns the sums on or off. While they are off no clock is read, which a seccomp filter may forbid. Any thread. */
void dp_heap_lifetime_tune(bool on);
/* Whether the sums are mapped. */
bool dp_heap_lifetime_is_mapped(void);

/* A sampled block was allocated. Context of this and the next two: hook. */
void dp_heap_lifetime_began(dp_record_id record, uint32_t objects, uint64_t bytes);
/* The block of this entry was freed, or moved by realloc. */
void dp_heap_lifetime_ended(const struct dp_heap_live_block *entry);
/* realloc moved the block of this entry away from `key`; called in addition to ended. */
void dp_heap_lifetime_moved(uintptr_t key, const struct dp_heap_live_block *entry);

/* The sums since start, or since the fork. Context: report. */
struct dp_heap_lifetime dp_heap_lifetime_read(dp_record_id id);

/* In a forked child: its sums begin at 0. One system call. */
void dp_heap_lifetime_fork_child(void);
