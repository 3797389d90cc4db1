/* SPDX-License-Identifier: MIT */
/*
 * record/inherited.h - separates the blocks that a forked process inherited from its parent from those that it
 * allocated itself.
 */
#pragma once

#include "record/live_blocks.h"
#include "record/thread.h"

/*
 * In live_blocks the upper 16 bits of an entry's bytes hold the fork count of the process that allocated the block,
 * modulo 2^16. A block that was inherited over exactly 65,536 forks counts as own.
 */
#define DP_INHERITED_SHIFT 48
_Static_assert((uint64_t)DP_BYTES_MAX <= (uint64_t)1 << DP_INHERITED_SHIFT, "bytes of one block fit below");

static inline void dp_inherited_mark(struct dp_live_block *entry, uint32_t epoch)
{
    entry->bytes |= (uint64_t)epoch << DP_INHERITED_SHIFT;
}

/* In a forked child, before its first own event: only records that exist now may have inherited blocks. */
void dp_inherited_begin(void);

/* Counts the free of a block that this process allocated. Context: hook. */
void dp_inherited_add_own_free(dp_record_id id, int64_t n, int64_t v);

/*
 * Returns the bytes of a freed block's entry, and counts the free if the block is own. Before the free is counted in
 * its record.
 */
static inline int64_t dp_inherited_forget(const struct dp_live_block *entry, uint32_t epoch)
{
    int64_t bytes = (int64_t)(entry->bytes & (((uint64_t)1 << DP_INHERITED_SHIFT) - 1));
    if (__builtin_expect(epoch != 0, 0) && entry->bytes >> DP_INHERITED_SHIFT == (epoch & 0xffff))
        dp_inherited_add_own_free(entry->record, entry->objects, bytes);
    return bytes;
}

/* The inherited part of the in-use values of `counts`; 0 in the first process, and if there was no memory. */
void dp_inherited_read(dp_record_id id, const struct dp_counts *counts, int64_t *n, int64_t *v);
