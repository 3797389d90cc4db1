/* SPDX-License-Identifier: MIT */
/* tool/cli/functions.h - the values of a profile by function, and the parts of sentences (sentences.h) about them. */
#pragma once

#include "tool/cli/sentences.h"
#include "tool/query/query.h"

enum { DP_CLI_NAME_BYTES = 256 };

/* A function of the user's own code. */
struct dp_cli_place {
    char name[DP_CLI_NAME_BYTES + 64]; /* NAME (FILE:LINE) */
    uint32_t stack;
};

/* The values of a query by the first function of the user's own code. */
struct dp_cli_function {
    int64_t value, best;
    uint32_t row; /* the one with the largest value */
};

struct dp_cli_functions {
    struct dp_strings names;
    DP_VEC(struct dp_cli_function) at; /* by name - 1 */
};

/* A new sentence; NULL: there are enough. */
struct dp_cli_sentence *dp_cli_sentence_add(struct dp_cli_sentences *, const char *kind, double weight);
/* Adds to what was looked at and found to be in order. */
void dp_cli_sentence_note(struct dp_cli_sentences *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Begins a query of its own for one question. */
int dp_cli_sentence_begin(struct dp_query *, const struct dp_cli_sentences *, const char *type, int at);
/* Whether there are profiles of a kind: a question about others would be an error. */
bool dp_cli_sentence_has_kind(const struct dp_query_paths *, const char *kind);

/* The function of the row whose stack the query has; and a value of it. 0 or -ENOMEM. */
const char *dp_cli_functions_name(const struct dp_query *);
int dp_cli_functions_add(struct dp_cli_functions *, const struct dp_query *, uint32_t row, int64_t value, bool creates);
/* Adds the values of a query, times sign; without `creates`, only to functions that are there. 0 or -ENOMEM. */
int dp_cli_functions_count(struct dp_cli_functions *, struct dp_query *, int sign, bool creates);
/*
 * Sums a kind of profile by function. The query and the functions are to be ended also after an error. 0, or
 * DP_EXIT_FAILED after one line on stderr.
 */
int dp_cli_functions_read_kind(struct dp_cli_sentences *, struct dp_query *, const char *kind, const char *type,
                               struct dp_cli_functions *);
/* The one with the largest value; NULL: there is none. */
const struct dp_cli_function *dp_cli_functions_largest(const struct dp_cli_functions *);
/* Names the function of a row. False: out of memory. */
bool dp_cli_functions_describe(struct dp_cli_sentences *, struct dp_query *, uint32_t row, struct dp_cli_place *);
void dp_cli_functions_fini(struct dp_cli_functions *);
