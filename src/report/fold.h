/* SPDX-License-Identifier: MIT */
/*
 * report/fold.h - which rows max_samples keeps, and the sum of those that it folds into [other].
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dp_fold {
    int64_t least; /* weights above it stay */
    size_t ties;   /* and this many rows of just this weight */
};

/* Keeps the n_keep heaviest of n weights, which come back in another order. */
void dp_fold_plan(struct dp_fold *fold, int64_t *weights, size_t n, size_t n_keep);

/* Asked once for each row, in any order. */
bool dp_fold_keeps(struct dp_fold *fold, int64_t weight);
