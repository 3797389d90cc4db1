/* SPDX-License-Identifier: MIT */
/* cli/leaks.h - the leaks that `deltaprof leaks` found, and how they are printed. */
#pragma once

#include "query/evidence.h"
#include "query/stacks.h"

struct dp_cli_leak {
    uint32_t stack, row; /* row: of the model, one that has the stack */
    size_t n_own;
    double bytes, bytes_per_hour, confidence;
    int64_t since_ns;
    size_t n_processes;
    bool is_left;                      /* known only from the end of the process */
    struct dp_query_evidence evidence; /* of the process that has most */
    double row_bytes;
};

struct dp_cli_tally {
    double bytes;
    size_t n;
};

/* What the verb was asked, and found. */
struct dp_cli_leaks {
    struct dp_query view;
    struct dp_query_series series;
    double least;
    size_t n_wanted, n_frames;
    DP_VEC(struct dp_cli_leak) leaks;
    DP_VEC(uint32_t) of_stack; /* leak + 1 */
    double in_use, in_use_before;
    struct dp_cli_tally filled, steady, libraries;
    struct dp_cli_leak closest; /* the most suspicious of the others */
};

enum dp_cli_leaks_verdict { DP_CLI_LEAKS_CANNOT_TELL, DP_CLI_LEAKS_NONE, DP_CLI_LEAKS_FOUND };

/* What the judge says of the profiles in a directory, for verbs that tell it in one sentence. */
struct dp_cli_leaks_summary {
    enum dp_cli_leaks_verdict verdict;
    size_t n_leaks;
    int64_t bytes;   /* of all leaks */
    char needs[160]; /* CANNOT_TELL: what would settle it */
    size_t n_ticks;  /* that were looked at */
    int64_t worst_bytes, worst_per_hour;
    char worst[256], place[256]; /* the function of the worst leak, and its FILE:LINE, or "" */
    uint32_t stack;              /* the worst one's, of the caller's stacks */
};

/* Reads the heap profiles that the paths name. 0, or DP_EXIT_FAILED after one line on stderr. */
int dp_cli_leaks_summarize(struct dp_cli_leaks_summary *, const char *verb, char **paths, size_t n_paths,
                           struct dp_query_stacks *);

/* The first n leaks, as people read them or as JSON. 0 or -ENOMEM. */
int dp_cli_leaks_print(struct dp_cli_leaks *, size_t n);
int dp_cli_leaks_json(struct dp_cli_leaks *, size_t n);
