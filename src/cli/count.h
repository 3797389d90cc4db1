/* SPDX-License-Identifier: MIT */
/*
 * cli/count.h - which functions have how much of a type: `flat` is what a function has itself (the innermost line of
 * the leaf), `cum` is that and all it called; a function that stands in a stack many times counts once.
 */
#pragma once

#include "cli/names.h"
#include "pprof/merge.h"

struct dp_cli_node {
    uint32_t name;     /* in names */
    uint32_t last_row; /* + 1: where cum was counted last */
    int64_t flat, cum;
};

struct dp_cli_count {
    /* The caller's: set before. */
    const struct dp_merge *merge;
    size_t type;
    char **labels; /* KEY=VALUE: only rows that have them all */
    size_t n_labels;

    int64_t total, weight; /* the sum, and that of absolute values: what percentages are of, as go tool pprof's */
    struct dp_strings names;
    DP_VEC(struct dp_cli_node) nodes; /* by name until they are sorted */
    struct dp_cli_names places;
    DP_VEC(uint32_t) of_location; /* node + 1 of a location without lines; 0: not known yet */
    DP_VEC(uint32_t) of_function;
    DP_VEC(uint32_t) seen; /* by location: row + 1 where it was counted last; a recursion's lines are counted once */
};

int dp_cli_count_rows(struct dp_cli_count *); /* 0 or -ENOMEM */
/* Leaves those nodes that have something, the largest first. */
void dp_cli_count_sort(struct dp_cli_count *);
void dp_cli_count_fini(struct dp_cli_count *);
