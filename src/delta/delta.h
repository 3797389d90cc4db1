/* SPDX-License-Identifier: MIT */
/* delta/delta.h - computes the changes in the record table since a baseline, as rows. */
#pragma once

#include "base/mem.h"
#include "delta/kinds.h"

#include <stdbool.h>

/*
 * A row becomes one sample: the record, and its values in the order of its kind's types. In a forked process a record
 * may have a second row, for inherited memory that is still in use: values[0] and [1] are 0 there.
 */
struct dp_row {
    uint32_t id; /* record id; for records of a runtime, index into the dump */
    uint32_t
        entry; /* for a runtime's record: its entry in records.c; for a hooked one: DP_ROW_INHERITED, an age (age.h) */
    int64_t values[DP_VALUES_MAX];
};

enum { DP_ROW_INHERITED = 1 };

struct dp_rows {
    struct dp_row *at;
    size_t n, cap;
    size_t n_more; /* behind the n rows: no samples, but changes of the baseline all the same */
};

/* The values that a consumer delivered last, by record id. */
struct dp_baseline_entry {
    int64_t n, v;
};
struct dp_baseline {
    struct dp_baseline_entry *at;
    size_t n, cap;
};

/*
 * Appends the rows of kind that changed since base or are in use, in one pass in memory order. base grows to the
 * present number of records; new entries have the values at the fork. base NULL: since start (or the fork). locks: bit
 * k selects the rows of lock kind k, and all rows of futexes, whose kind lock_rows.h decides; 0: all rows. -ENOMEM:
 * rows are incomplete and must be dropped; the values in base are unchanged.
 */
int dp_delta_scan(unsigned kind, unsigned locks, struct dp_baseline *base, struct dp_rows *rows);

/* Calls fn with the values since start (or the fork) of each record that has any; lock: its lock kind, or 0. */
void dp_delta_visit(unsigned kind, void (*fn)(void *ctx, unsigned lock, const int64_t *values), void *ctx);

/* Moves base by the deltas in rows, which must come from a scan against it. */
void dp_delta_commit(struct dp_baseline *base, const struct dp_rows *rows);
