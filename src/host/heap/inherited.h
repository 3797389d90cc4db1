/* SPDX-License-Identifier: MIT */
/*
 * host/heap/inherited.h - separates the blocks that a forked process inherited from its parent from those that it
 * allocated itself.
 */
#pragma once

#include "host/heap/live_blocks.h"
#include "host/thread/thread.h"

/*
 * In live_blocks the upper 16 bits of an entry's bytes hold the fork count of the process that allocated the block,
 * modulo 2^16. A block that was inherited over exactly 65,536 forks counts as own.
 */
#define DP_INHERITED_SHIFT 48
_Static_assert((uint64_t)DP_BYTES_MAX <= (uint64_t)1 << DP_INHERITED_SHIFT, "bytes of one block fit below");

static inline void dp_heap_inherited_mark(struct dp_heap_live_block *entry, uint32_t epoch)
{
    entry->bytes |= (uint64_t)epoch << DP_INHERITED_SHIFT;
}

/* After dp_table_init. -ENOMEM. Context: init. */
int dp_heap_inherited_init(void);

/* In a forked child, before its first own event: only records that exist now may have inherited blocks. */
void dp_heap_inherited_begin(void);

/* In a process that has copied the tables of another one: the first n records may have inherited blocks. */
void dp_heap_inherited_adopt(uint32_t n);

/* Counts the free of a block that this process allocated. Context: hook. */
void dp_heap_inherited_add_own_free(dp_record_id id, int64_t n, int64_t v);

/* The bytes of an entry, without that mark. */
static inline int64_t dp_heap_inherited_bytes(const struct dp_heap_live_block *entry)
{
    return (int64_t)(entry->bytes & (((uint64_t)1 << DP_INHERITED_SHIFT) - 1));
}

/* Whether the block was allocated by this process, whose fork count is epoch. */
static inline bool dp_heap_inherited_is_own(const struct dp_heap_live_block *entry, uint32_t epoch)
{
    return entry->bytes >> DP_INHERITED_SHIFT == (epoch & 0xffff);
}

/* The inherited part of the in-use values of `counts`; 0 in the first process, and if there was no memory. */
void dp_heap_inherited_read(dp_record_id id, const struct dp_counts *counts, int64_t *n, int64_t *v);
