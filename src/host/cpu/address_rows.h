/* SPDX-License-Identifier: MIT */
/* host/cpu/address_rows.h - splits the rows of a profile by exact address. Context: report. */
#pragma once

#include "host/report/delta.h"

/* The part of a slot (addresses.h) that rows have. */
struct dp_address_piece {
    uint32_t slot, generation; /* the slot's number, those of both tables counted through */
    uint32_t record, distance;
    int64_t n, ns;
    uint32_t next; /* 1 + the next piece of its record; 0: none */
};
struct dp_address_pieces {
    struct dp_address_piece *at;
    size_t n, cap;
};

/* What a consumer delivered, by slot. */
struct dp_address_given {
    uint32_t generation;
    int64_t n, ns;
};
struct dp_address_baseline {
    struct dp_address_given *at;
    size_t n, cap;
};

/*
 * Replaces each row, of a scan of the records of CPU time, by a row for each of its exact addresses, and one for what
 * has none; their sums are the row's. A row's part (delta.h) is 1 + the address's distance from the function's
 * beginning. base NULL: since start. pieces gets what commit adds to base. Where memory is short, the rows stay as they
 * are.
 */
void dp_address_rows_split(struct dp_rows *rows, struct dp_address_baseline *base, struct dp_address_pieces *pieces);

/* All that was counted since base. 0 or -ENOMEM. */
int dp_address_rows_skip(struct dp_address_baseline *base, struct dp_address_pieces *pieces);

/* Moves base by the pieces. */
void dp_address_rows_commit(struct dp_address_baseline *base, const struct dp_address_pieces *pieces);
