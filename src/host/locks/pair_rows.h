/* SPDX-License-Identifier: MIT */
/* host/locks/pair_rows.h - the pairs of waiters and holders (host/locks/pair_table.h) that changed since a baseline. */
#pragma once

#include "base/mem.h"
#include "host/locks/pair_table.h"

/* n and ns are differences. */
struct dp_pair_rows {
    struct dp_pair *at;
    size_t n, cap;
};

/* What a consumer delivered last, by the pair's number. */
struct dp_pair_delivered {
    uint32_t generation;
    int64_t n, ns;
};
struct dp_pairs_baseline {
    struct dp_pair_delivered *at;
    size_t n, cap;
};

/*
 * Appends the pairs that grew since base, those with most time first. base NULL: since start (or the fork). -ENOMEM:
 * the rows must be dropped.
 */
int dp_pairs_scan(struct dp_pairs_baseline *base, struct dp_pair_rows *rows);

/* Moves base by the rows, which must come from a scan against it. */
void dp_pairs_commit(struct dp_pairs_baseline *base, const struct dp_pair_rows *rows);
