/* SPDX-License-Identifier: MIT */
/* host/records/records.h - computes deltas of the cumulative records that a runtime passed in (a "dump"). */
#pragma once

#include "host/report/delta.h"

#include <deltaprof/records.h>

/* All records at one moment; exactly one of the two arrays is set. */
struct dp_records_dump {
    const struct deltaprof_heap_record *heap;
    const struct deltaprof_block_record *block;
    size_t n;
    bool mixed_sizes; /* heap: keyed by the stack alone */
    size_t depth;     /* number of leafmost frames used */
};

/* A consumer's memory of its runtime's records. */
struct dp_records;
/* budget_bytes: the most memory for entries; above it, stacks that no longer come are removed. NULL: no memory. */
struct dp_records *dp_records_new(size_t budget_bytes);
void dp_records_free(struct dp_records *); /* takes NULL */

/*
 * Appends the rows of the dump: values allocated (or waited) since the last commit, and values in use. Row ids are
 * indices of the dump. -ENOMEM, or -EINVAL (a stack is NULL): rows are incomplete and must be dropped. No earlier
 * subtract may be pending.
 */
int dp_records_subtract(struct dp_records *, const struct dp_records_dump *dump, struct dp_rows *rows);

/* Makes the dump of the last subtract, which gave these rows, the baseline. Without this call the baseline stays. */
void dp_records_commit(struct dp_records *, const struct dp_rows *rows);

/* Forgets all ids: later dumps may use the same ids for other records. */
void dp_records_reset_ids(struct dp_records *);

/* The block size of a row's record, for the label `bytes`; 0: no label. */
int64_t dp_records_size(const struct dp_records *, const struct dp_row *row);
/* A word for the caller, kept with the row's stack; 0 until it is set. */
uint32_t *dp_records_note(struct dp_records *, const struct dp_row *row);
/* Resets all notes to 0. */
void dp_records_clear_notes(struct dp_records *);

static inline void dp_records_dump_stack(const struct dp_records_dump *dump, size_t i, const uintptr_t **stack,
                                         size_t *depth)
{
    *stack = dump->heap ? dump->heap[i].stack : dump->block[i].stack;
    *depth = dump->heap ? dump->heap[i].depth : dump->block[i].depth;
}
