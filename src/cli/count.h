/* SPDX-License-Identifier: MIT */
/*
 * cli/count.h - which functions have how much of a type: `flat` is what a function has itself (the innermost frame of
 * the leaf that is shown), `cum` is that and all it called; a function that stands in a stack many times counts once.
 * Instead of functions it can be lines, files, libraries or the values of a label.
 */
#pragma once

#include "cli/query.h"

enum dp_cli_by { DP_CLI_BY_FUNCTION, DP_CLI_BY_LINE, DP_CLI_BY_FILE, DP_CLI_BY_LIBRARY, DP_CLI_BY_LABEL };

struct dp_cli_node {
    uint32_t name;     /* in names */
    uint32_t last_row; /* + 1: where cum was counted last */
    int64_t flat, cum;
};

struct dp_cli_count {
    /* The caller's: set before. */
    struct dp_cli_query *view;
    enum dp_cli_by by;
    const char *key; /* of DP_CLI_BY_LABEL */
    bool by_cum;     /* the order: cum first */

    int64_t total, weight; /* the sum, and that of absolute values: what percentages are of, as go tool pprof's */
    int64_t shown;         /* the sum over rows that --focus, --ignore and --hide left; weight and total are of all */
    size_t n_rows;         /* that were counted */
    struct dp_strings names;
    DP_VEC(struct dp_cli_node) nodes; /* by name until they are sorted */
    DP_VEC(uint32_t) of_frame;        /* node + 1; 0: not known yet */
};

int dp_cli_count_rows(struct dp_cli_count *); /* 0 or -ENOMEM */
/* Leaves those nodes that have something, the largest first. */
void dp_cli_count_sort(struct dp_cli_count *);
void dp_cli_count_fini(struct dp_cli_count *);
