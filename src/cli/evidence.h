/* SPDX-License-Identifier: MIT */
/* cli/evidence.h - decides whether a stack leaks, from its in-use values tick by tick. */
#pragma once

#include "cli/series.h"

#include <stdbool.h>

enum dp_cli_verdict {
    DP_CLI_STEADY,  /* does not grow, or not more than by chance */
    DP_CLI_FILLED,  /* grew, and stopped: a cache that filled up, a table that was built */
    DP_CLI_ONCE,    /* was allocated at the beginning and stays */
    DP_CLI_GROWING, /* a leak, with the given confidence */
    DP_CLI_LEFT,    /* too few ticks to see growth: was never freed, and is left after the end */
};

struct dp_cli_evidence {
    enum dp_cli_verdict verdict;
    double confidence;     /* 0 to 1 */
    double bytes_per_hour; /* over the second half of the time */
    int64_t since_ns;      /* when the growth began; 0: not known */
};

/* The least number of ticks to tell growth from the start of a program. */
#define DP_CLI_TICKS_NEEDED 4

struct dp_cli_evidence dp_cli_evidence_of(const struct dp_cli_process *, const struct dp_cli_curve *);
