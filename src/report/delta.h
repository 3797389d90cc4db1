/* SPDX-License-Identifier: MIT */
/*
 * report/delta.h - what changed in the record table since a baseline, as rows.
 */
#pragma once

#include "base/mem.h"
#include "report/kinds.h"

/* One sample to be: which record, and its values in the order of its kind's types. A forked process has a second row of
 * a record for what it inherited and still holds: values[0] and [1] are 0 there. */
struct dp_row {
    uint32_t id;    /* record id; for records of a runtime, index into the dump */
    uint32_t entry; /* of a runtime's record: what is known of it; of a hooked one: 0, or DP_ROW_INHERITED */
    int64_t values[DP_VALUES_MAX];
};

enum { DP_ROW_INHERITED = 1 };

struct dp_rows {
    struct dp_row *at;
    size_t n, cap;
};

/* What a consumer delivered last, by record id. */
struct dp_baseline_entry {
    int64_t n, v;
};
struct dp_baseline {
    struct dp_baseline_entry *at;
    size_t n, cap;
};

/*
 * Appends the rows of kind that changed since base or are in use, in one visit in memory order. base grows to the
 * records that there are now, new ones beginning at the fork; NULL: since start (or the fork). -ENOMEM: rows are
 * incomplete and must be dropped; base still says the same.
 */
int dp_delta_scan(unsigned kind, struct dp_baseline *base, struct dp_rows *rows);

/* Moves base by the deltas in rows, which must come from a scan against it. */
void dp_delta_commit(struct dp_baseline *base, const struct dp_rows *rows);
