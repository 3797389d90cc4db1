/* SPDX-License-Identifier: MIT */
/*
 * report/records.h - deltas of a dump of cumulative records that a runtime handed in.
 */
#pragma once

#include "report/delta.h"

#include <deltaprof/records.h>

/* All the records of one moment; exactly one of the two arrays. */
struct dp_dump {
    const struct deltaprof_heap_record *heap;
    const struct deltaprof_block_record *block;
    size_t n;
    bool mixed_sizes; /* heap: keyed by the stack alone */
    size_t depth;     /* leafmost frames that count */
};

/* What a consumer knows of its runtime's records. */
struct dp_records;
/* budget_bytes: what stacks that no longer come may fill. NULL: no memory. */
struct dp_records *dp_records_new(size_t budget_bytes);
void dp_records_free(struct dp_records *); /* takes NULL */

/*
 * Appends the rows of the dump: what was allocated (or waited) since the last commit, and what is in use. Row ids are
 * indices of the dump. -ENOMEM, or -EINVAL (NULL where a stack should be): rows are incomplete and must be dropped.
 * Nothing else of before may be pending.
 */
int dp_records_subtract(struct dp_records *, const struct dp_dump *dump, struct dp_rows *rows);

/* Makes the dump of the last subtract, which gave these rows, the baseline. Not called: the baseline stays. */
void dp_records_commit(struct dp_records *, const struct dp_rows *rows);

/* The ids of dumps to come have nothing to do with those before. */
void dp_records_forget_ids(struct dp_records *);

/* Of a row's record: the size of one block, the label `bytes`; 0: no label. */
int64_t dp_records_size(const struct dp_records *, const struct dp_row *row);
/* Of its stack: a word for the caller, 0 until it is set. */
uint32_t *dp_records_note(struct dp_records *, const struct dp_row *row);
/* Makes them all 0 again. */
void dp_records_clear_notes(struct dp_records *);

static inline void dp_dump_stack(const struct dp_dump *dump, size_t i, const uintptr_t **stack, size_t *depth)
{
    *stack = dump->heap ? dump->heap[i].stack : dump->block[i].stack;
    *depth = dump->heap ? dump->heap[i].depth : dump->block[i].depth;
}
