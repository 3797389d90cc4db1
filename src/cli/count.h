/* SPDX-License-Identifier: MIT */
/*
 * cli/count.h - counts how much of a sample type each function has. `flat` is the value of the function itself, as the
 * innermost shown frame; `cum` includes all that it called. A function that occurs in a stack several times counts
 * once. Values can also be counted by line, file, library or the value of a label.
 */
#pragma once

#include "cli/query.h"

enum dp_cli_by { DP_CLI_BY_FUNCTION, DP_CLI_BY_LINE, DP_CLI_BY_FILE, DP_CLI_BY_LIBRARY, DP_CLI_BY_LABEL };

struct dp_cli_node {
    uint32_t name;     /* in names */
    uint32_t last_row; /* row + 1 where cum was counted last */
    int64_t flat, cum;
};

struct dp_cli_count {
    /* The caller's: set before. */
    struct dp_cli_query *view;
    enum dp_cli_by by;
    const char *key; /* of DP_CLI_BY_LABEL */
    bool by_cum;     /* the order: cum first */

    int64_t total, weight; /* the sum, and the sum of absolute values: the base of percentages, as in go tool pprof */
    /* the sum over rows that pass --focus, --ignore and --hide; weight and total are over all rows */
    int64_t shown;
    size_t n_rows; /* that were counted */
    struct dp_strings names;
    DP_VEC(struct dp_cli_node) nodes; /* by name until they are sorted */
    DP_VEC(uint32_t) of_frame;        /* node + 1; 0: not known yet */
};

int dp_cli_count_rows(struct dp_cli_count *); /* 0 or -ENOMEM */
/* Keeps only nodes with a value that is not 0, the largest first. */
void dp_cli_count_sort(struct dp_cli_count *);
void dp_cli_count_fini(struct dp_cli_count *);
