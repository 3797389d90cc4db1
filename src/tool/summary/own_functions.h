/* SPDX-License-Identifier: MIT */
/* tool/summary/own_functions.h - the user's own functions of the rows of a query: their sums, names and lines. */
#pragma once

#include "tool/summary/sentences.h"

/* The values of a query by the first function of the user's own code. */
struct dp_summary_function {
    int64_t value, best;
    uint32_t row; /* the one with the largest value */
};

/* Zero is an empty set. */
struct dp_summary_functions {
    struct dp_strings names;
    DP_VEC(struct dp_summary_function) at; /* by name - 1 */
};

/* The function of the row whose stack the query has now, and a value of it; without `creates`, only if it is there. */
const char *dp_summary_functions_name(const struct dp_query *);
int dp_summary_functions_add(struct dp_summary_functions *, const struct dp_query *, uint32_t row, int64_t value,
                             bool creates);
/* Adds the values of a query, times sign; without `creates`, only to functions that are there. 0 or -ENOMEM. */
int dp_summary_functions_count(struct dp_summary_functions *, struct dp_query *, int sign, bool creates);
/* The one with the largest value; NULL: there is none. */
const struct dp_summary_function *dp_summary_functions_largest(const struct dp_summary_functions *);
void dp_summary_functions_fini(struct dp_summary_functions *);

enum { DP_SUMMARY_PLACE_BYTES = 360 };

/* A function of the user's own code. */
struct dp_summary_place {
    char name[DP_SUMMARY_PLACE_BYTES]; /* NAME (FILE:LINE); of a constructor also its caller */
    uint32_t stack;
};

/* The name and the line of the frame v->stack[at]. If it is a constructor, its caller too: the line to look at. */
void dp_summary_place_text(char *to, size_t n_bytes, const struct dp_query *v, size_t at);
/* The name and the line of the first function of the user's own code in the stack that the query has now. */
void dp_summary_place_of_stack(char *to, size_t n_bytes, const struct dp_query *v);
/* The place of the first function of the user's own code in a row. False: out of memory. */
bool dp_summary_place_of_row(struct dp_summary_place *, struct dp_query_stacks *, struct dp_query *v, uint32_t row);
