/* SPDX-License-Identifier: MIT */
/* host/report/fold.h - chooses the rows that max_samples keeps; the others are folded into [other]. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dp_fold {
    int64_t least; /* rows with a larger weight are kept */
    size_t ties;   /* and this many rows of exactly this weight */
};

/* Plans to keep the n_keep heaviest of n weights; reorders weights. */
void dp_fold_plan(struct dp_fold *fold, int64_t *weights, size_t n, size_t n_keep);

/* To be called once for each row, in any order. */
bool dp_fold_keeps(struct dp_fold *fold, int64_t weight);
