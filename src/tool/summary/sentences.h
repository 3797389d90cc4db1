/* SPDX-License-Identifier: MIT */
/* tool/summary/sentences.h - what matters most in a directory of profiles, each in one sentence, for `deltaprof
 * summary`.
 */
#pragma once

#include "tool/query/stacks.h"

enum { DP_SUMMARY_SENTENCE_BYTES = 800, DP_SUMMARY_SENTENCES_MAX = 14, DP_SUMMARY_OPEN_MAX = 4 };

struct dp_summary_sentence {
    const char *kind; /* stuck, missing, leak, held, zeros, lock, cpu, wall, lost, leak-unknown, symbols, nothing */
    char text[DP_SUMMARY_SENTENCE_BYTES];
    int64_t amount; /* in bytes, or ns if is_time; -1: none */
    bool is_time;
    uint32_t stack;   /* of stacks; DP_STRINGS_NONE: none */
    const char *verb; /* the command that shows more, without its path; NULL: none */
    double weight;    /* the worst has the highest */
};

/* A question that the profiles do not answer yet. */
struct dp_summary_open {
    const char *kind; /* of its sentences: leak, held, or heap for all questions about memory */
    char needs[160];  /* what was seen, and what would settle it */
};

/* Zero, with the paths set, is an empty one. */
struct dp_summary_sentences {
    const char *verb; /* for errors */
    char **paths;
    size_t n_paths, limit_bytes;
    struct dp_query_stacks stacks;
    struct dp_summary_sentence at[DP_SUMMARY_SENTENCES_MAX]; /* the worst first */
    size_t n;
    struct dp_summary_open open[DP_SUMMARY_OPEN_MAX];
    size_t n_open;
    char looked[DP_SUMMARY_SENTENCE_BYTES];     /* what was looked at and found to be in order */
    char no_symbols[DP_SUMMARY_SENTENCE_BYTES]; /* of the program with most functions without a name */
};

/* Reads the profiles, and makes the sentences; at least one. 0, or DP_EXIT_FAILED after one line on stderr. */
int dp_summary_sentences_find(struct dp_summary_sentences *);
void dp_summary_sentences_fini(struct dp_summary_sentences *);
