/* SPDX-License-Identifier: MIT */
/* tool/cli/growth.h - compares stacks with an earlier state, for `growth` and `check`. */
#pragma once

#include "tool/leaks/series.h"

struct dp_cli_change {
    uint32_t stack; /* of stacks */
    int64_t before, after;
    double per_hour, steadiness; /* of a series */
    double weight;
};

/* Zero is an empty one. */
struct dp_cli_growth {
    struct dp_query_stacks stacks;
    DP_VEC(struct dp_cli_change) changes; /* by stack until they are sorted: the largest first */
    int64_t before, after;                /* in all */
    bool is_series;
    size_t n_processes, n_points, n_files; /* of a series */
    int64_t duration_ns, longest_ns;       /* from the first tick to the last; from the start of a process */
};

/*
 * Reads the profiles that paths[0] and paths[1] name, with the options of the two views, and compares them. 0, or
 * DP_EXIT_FAILED after one line.
 */
int dp_cli_growth_pair(struct dp_cli_growth *, struct dp_query *old, struct dp_query *new, char **paths);
/* The n_wanted largest changes, n_frames functions of each; 0: all. */
void dp_cli_growth_print(const struct dp_cli_growth *, const char *unit, size_t n_wanted, size_t n_frames);
void dp_cli_growth_fini(struct dp_cli_growth *);
