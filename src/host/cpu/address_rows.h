/* SPDX-License-Identifier: MIT */
/*
 * host/cpu/address_rows.h - splits the rows of a CPU profile by exact address, for line numbers. Context: report.
 */
#pragma once

#include "host/report/delta.h"

/* What was counted in a slot of a table (addresses.h) since the baseline. */
struct dp_address_delta {
    uint32_t slot; /* number of the table * slots of a table + the slot's number in its table */
    uint32_t generation;
    uint32_t record, distance;
    int64_t n, ns;
    uint32_t next; /* 1 + index of the next delta of the same record; 0: none */
};
struct dp_address_deltas {
    struct dp_address_delta *at;
    size_t n, cap;
};

/* What a consumer has delivered of a slot. */
struct dp_address_delivered {
    uint32_t generation;
    int64_t n, ns;
};
struct dp_address_baseline {
    struct dp_address_delivered *at; /* by slot */
    size_t n, cap;
};

/*
 * Replaces each row by one row for each of its exact addresses, and one for samples without an exact address. Their
 * values add up to those of the row. The part (delta.h) of a row is 1 + the distance of its address from the start of
 * the function; 0: no exact address. rows: of a scan of the records of CPU time. base NULL: since start. Fills deltas
 * for commit. Without memory the rows stay as they are.
 */
void dp_address_rows_split(struct dp_rows *rows, struct dp_address_baseline *base, struct dp_address_deltas *deltas);

/* Fills deltas with all that was counted since base, for commit without a profile. 0 or -ENOMEM. */
int dp_address_rows_skip(struct dp_address_baseline *base, struct dp_address_deltas *deltas);

/* Adds the deltas to base. */
void dp_address_rows_commit(struct dp_address_baseline *base, const struct dp_address_deltas *deltas);
