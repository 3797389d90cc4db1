/* SPDX-License-Identifier: MIT */
/* cli/leaks.h - the leaks that `deltaprof leaks` found, and how they are printed. */
#pragma once

#include "query/evidence.h"

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

/* The first n leaks, as people read them or as JSON. 0 or -ENOMEM. */
int dp_cli_leaks_print(struct dp_cli_leaks *, size_t n);
int dp_cli_leaks_json(struct dp_cli_leaks *, size_t n);
