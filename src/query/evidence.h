/* SPDX-License-Identifier: MIT */
/* query/evidence.h - decides whether a stack leaks, from its in-use values tick by tick. */
#pragma once

#include "query/series.h"

#include <stdbool.h>

enum dp_query_verdict {
    DP_QUERY_STEADY,  /* does not grow, or chance explains its growth */
    DP_QUERY_FILLED,  /* grew, and stopped: a cache that filled up, a table that was built */
    DP_QUERY_ONCE,    /* was allocated at the beginning and stays */
    DP_QUERY_GROWING, /* a leak, with the given confidence */
    DP_QUERY_LEFT,    /* too few ticks to see growth; almost nothing was freed before the end */
};

struct dp_query_evidence {
    enum dp_query_verdict verdict;
    double confidence;     /* 0 to 1 */
    double bytes_per_hour; /* over the second half of the time */
    int64_t since_ns;      /* when the growth began; 0: not known */
};

/* With fewer ticks, growth cannot be told from the allocations at the start of a program. */
#define DP_QUERY_TICKS_NEEDED 4

struct dp_query_evidence dp_query_evidence_of(const struct dp_query_process *, const struct dp_query_curve *);
