/* SPDX-License-Identifier: MIT */
/* tool/cli/own_functions.h - the user's own functions of the rows of a query: their sums, names and lines. */
#pragma once

#include "tool/cli/sentences.h"

/* The values of a query by the first function of the user's own code. */
struct dp_cli_function {
    int64_t value, best;
    uint32_t row; /* the one with the largest value */
};

/* Zero is an empty set. */
struct dp_cli_functions {
    struct dp_strings names;
    DP_VEC(struct dp_cli_function) at; /* by name - 1 */
};

/* Adds the values of a query, times sign; without `creates`, only to functions that are there. 0 or -ENOMEM. */
int dp_cli_functions_count(struct dp_cli_functions *, struct dp_query *, int sign, bool creates);
/* The one with the largest value; NULL: there is none. */
const struct dp_cli_function *dp_cli_functions_largest(const struct dp_cli_functions *);
void dp_cli_functions_fini(struct dp_cli_functions *);

enum { DP_CLI_PLACE_BYTES = 360 };

/* A function of the user's own code. */
struct dp_cli_place {
    char name[DP_CLI_PLACE_BYTES]; /* NAME (FILE:LINE); of a constructor also its caller */
    uint32_t stack;
};

/* The name and the line of the frame v->stack[at]. If it is a constructor, its caller too: the line to look at. */
void dp_cli_place_text(char *to, size_t n_bytes, const struct dp_query *v, size_t at);
/* The place of the first function of the user's own code in a row. False: out of memory. */
bool dp_cli_place_of_row(struct dp_cli_place *, struct dp_query_stacks *, struct dp_query *v, uint32_t row);
