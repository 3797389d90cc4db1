/* SPDX-License-Identifier: MIT */
/* host/report/delta.h - computes the changes in the record table since a baseline, as rows. */
#pragma once

#include "base/mem.h"
#include "host/report/columns.h"
#include "host/table/table.h"

#include <stdbool.h>

/*
 * A row becomes one sample: the record, and its values in the order of its kind's types. In a forked process a record
 * may have a second row, for inherited memory that is still in use: values[0] and [1] are 0 there.
 */
struct dp_row {
    uint32_t id; /* record id; for records of a runtime, index into the dump */
    /* for a runtime's record: its entry in records.c; for a hooked one: DP_ROW_INHERITED, DP_ROW_SUMMED, a part
     */
    uint32_t entry;
    int64_t values[DP_VALUES_MAX];
};

/* SUMMED: the row of record 0, [overflow], has the sum of rows for which there was no memory. */
/* The part of the record stands above the shift, 0: none. Of heap rows: an age (age.h); of CPU time: an address. */
enum { DP_ROW_INHERITED = 1, DP_ROW_SUMMED = 2, DP_ROW_PART_SHIFT = 8 };

struct dp_rows {
    struct dp_row *at;
    size_t n, cap;
    size_t n_more;   /* behind the n rows: no samples, but changes of the baseline all the same */
    size_t n_summed; /* rows that are a part of one of SUMMED */
};

/*
 * The values that a consumer delivered last, by record id. Where rows were summed up, their entries hold the present
 * values, and `owed` what of them was not delivered yet. If there was no memory for all entries, those from n on are
 * summed up in each scan, and `beyond` has their sum at the last one.
 */
struct dp_baseline_entry {
    int64_t n, v;
};
struct dp_baseline {
    struct dp_baseline_entry *at;
    size_t n, cap;
    bool is_full; /* then n stays as it is */
    struct dp_baseline_entry owed, beyond;
};

/* What is particular to the table of a kind. A function that is NULL does nothing. */
struct dp_delta_rules {
    unsigned kind;
    bool has_levels;       /* rows have what is in use: all that was added, minus all that was freed */
    void (*prepare)(void); /* before the counters are read */
    bool (*is_filtered)(const struct dp_record *,
                        unsigned locks);                        /* whether the row is of no lock kind among `locks` */
    unsigned (*lock_of)(const struct dp_record *, bool *shown); /* as of dp_futex_lock_of */
    void (*read_level)(dp_record_id, int64_t *n, int64_t *v);   /* what was in use at another moment; NULL: now */
    /* What is in use of that which a forked process inherited. */
    void (*read_inherited)(dp_record_id, const struct dp_counts *, int64_t *n, int64_t *v);
};

/*
 * Appends the rows of the kind that changed since base or are in use, in one pass in memory order. base grows to the
 * present number of records; new entries have the values at the fork. base NULL: since start (or the fork). locks: bit
 * k selects the rows of lock kind k, and all rows of futexes, whose kind lock_rows.h decides; 0: all rows. If memory is
 * short, the smallest rows are summed up, and the sums come first: no value is lost, whether the rows are committed or
 * dropped. -ENOMEM: there was none for a single row.
 */
int dp_delta_scan(const struct dp_delta_rules *, unsigned locks, struct dp_baseline *base, struct dp_rows *rows);

/* Calls fn with the values since start (or the fork) of each record that has any; lock: its lock kind, or 0. */
void dp_delta_visit(const struct dp_delta_rules *, void (*fn)(void *ctx, unsigned lock, const int64_t *values),
                    void *ctx);

/* Moves base by the deltas in rows, which must come from a scan against it. */
void dp_delta_commit(struct dp_baseline *base, const struct dp_rows *rows);

/* Begins anew, with the values at the fork. Keeps the memory. */
void dp_delta_restart(struct dp_baseline *base);
