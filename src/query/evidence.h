/* SPDX-License-Identifier: MIT */
/* query/evidence.h - decides whether a stack leaks, from its in-use values tick by tick. */
#pragma once

#include "query/series.h"

#include <stdbool.h>

enum dp_query_verdict {
    DP_QUERY_STEADY,   /* does not grow, or chance or load explain its growth */
    DP_QUERY_FILLED,   /* grew, and stopped: a cache that filled up, a table that was built */
    DP_QUERY_ONCE,     /* was allocated at the beginning and stays */
    DP_QUERY_GROWING,  /* a leak, with the given confidence */
    DP_QUERY_DOUBLING, /* a buffer that is doubled when full, and will soon be full again */
    DP_QUERY_LEFT,     /* too few ticks to see growth; almost nothing was freed before the end */
};

struct dp_query_evidence {
    enum dp_query_verdict verdict;
    double confidence;     /* 0 to 1: the product of the probabilities that the growth is no chance, no load, no end */
    double bytes_per_hour; /* over the second half of the time */
    int64_t since_ns;      /* when the growth began; 0: not known */

    /* The numbers behind it; of the time after the first quarter, where not said otherwise. */
    size_t n_up, n_down, n_steps; /* ticks in which it grew; in which it shrank; all. DOUBLING: n_up times it doubled */
    double chance;                /* the probability that it is chance, at most */
    double load;                  /* the share of the growth that a higher load explains */
    double pace;                  /* in the last quarter, relative to before; -1: not known */
    double freed;                 /* the share of its sampled blocks that were freed, of the whole time */
    double n_sampled;             /* those blocks */
};

/* With fewer ticks, growth cannot be told from the allocations at the start of a program. */
#define DP_QUERY_TICKS_NEEDED 4

/* The growth of a stack that chance has to explain, in bytes, less that of memory that turns over: 0 if it does not
 * grow. */
double dp_query_evidence_growth(const struct dp_query_process *, const struct dp_query_curve *);
/* all_growth: the sum of dp_query_evidence_growth over the curves of the process. */
struct dp_query_evidence dp_query_evidence_of(const struct dp_query_process *, const struct dp_query_curve *,
                                              double all_growth);
