/* SPDX-License-Identifier: MIT */
/*
 * tool/query/count.h - counts how much of a sample type each function has. `flat` is the value of the function itself,
 * as the innermost shown frame; `cum` includes all that it called. A function that occurs in a stack several times
 * counts once. Values can also be counted by line, file, library or the value of a label. Other sample types can be
 * summed beside the one that is shown: columns.
 */
#pragma once

#include "tool/query/query.h"

enum dp_query_by { DP_QUERY_BY_FUNCTION, DP_QUERY_BY_LINE, DP_QUERY_BY_FILE, DP_QUERY_BY_LIBRARY, DP_QUERY_BY_LABEL };

enum { DP_QUERY_COLUMNS_MAX = 16 };

struct dp_query_node {
    uint32_t name;     /* in names */
    uint32_t last_row; /* row + 1 where cum was counted last */
    int64_t flat, cum;
};

struct dp_query_count {
    /* The caller's: set before. */
    struct dp_query *view;
    enum dp_query_by by;
    const char *key; /* of DP_QUERY_BY_LABEL */
    bool by_cum;     /* the order: cum first; columns are of a function and all that it called */
    size_t columns[DP_QUERY_COLUMNS_MAX], n_columns; /* sample types */

    int64_t total, weight; /* the sum, and the sum of absolute values: the base of percentages, as in go tool pprof */
    /* the sum over rows that pass --focus, --ignore and --hide; weight and total are over all rows */
    int64_t shown;
    size_t n_rows; /* that were counted */
    struct dp_strings names;
    DP_VEC(struct dp_query_node) nodes; /* by name until they are sorted */
    DP_VEC(uint32_t) of_frame;          /* node + 1; 0: not known yet */
    DP_VEC(int64_t) sums;               /* of the columns: n_columns for each name */
};

/* The columns are the sample types of these names, up to the first that the profile lacks. */
void dp_query_count_choose(struct dp_query_count *, const char *const *types, size_t n);

int dp_query_count_rows(struct dp_query_count *); /* 0 or -ENOMEM */
/* Keeps only nodes with a value that is not 0, the largest first. */
void dp_query_count_sort(struct dp_query_count *);
/* The sum of a column of a node. */
static inline int64_t dp_query_count_column(const struct dp_query_count *c, const struct dp_query_node *node, size_t i)
{
    return c->sums.at[node->name * c->n_columns + i];
}
void dp_query_count_fini(struct dp_query_count *);
