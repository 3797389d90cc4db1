/* SPDX-License-Identifier: MIT */
/* tool/leaks/evidence.h - the probability that one stack leaks, from its in-use values tick by tick. */
#pragma once

#include "tool/leaks/series.h"

#include <stdbool.h>

enum dp_leaks_kind {
    DP_LEAKS_STEADY,   /* does not grow, or chance or load explain its growth */
    DP_LEAKS_FILLED,   /* grew, and stopped: a cache that filled up, a table that was built */
    DP_LEAKS_ONCE,     /* was allocated at the beginning and stays */
    DP_LEAKS_GROWING,  /* a leak, with the given confidence */
    DP_LEAKS_DOUBLING, /* a buffer that is doubled when full, and will soon be full again */
};

struct dp_leaks_evidence {
    enum dp_leaks_kind kind;
    double confidence;     /* 0 to 1: the probability that its growth goes on */
    double bytes_per_hour; /* by the clock without idle time, over the second half of the work */
    int64_t since_ns;      /* when the growth began; 0: not known */

    /* The numbers behind it; of the time after the first quarter, where not said otherwise. */
    size_t n_up, n_down, n_steps; /* ticks in which it grew; in which it shrank; all. DOUBLING: n_up times it doubled */
    double chance, ended, by_load; /* the probabilities of other explanations */
    bool is_open;                  /* it grew in the whole of the time, and too little is seen to say that it ended */
    bool by_cpu;                   /* ticks in which it used CPU time count as work, though it allocated nothing */
    double freed;                  /* the share of its sampled blocks that were freed, of the whole time */
    double n_sampled, n_left;      /* those blocks; those in use at the end */
};

/* With fewer ticks, growth cannot be told from the allocations at the start of a program. */
#define DP_LEAKS_TICKS_NEEDED 4

/*
 * The growth of a stack in bytes, after the first quarter of the time in which the program worked. Memory that turns
 * over counts less. 0: it does not grow.
 */
double dp_leaks_growth(const struct dp_leaks_process *, const struct dp_leaks_curve *);
/* all_growth: the sum of dp_leaks_growth over the curves of the process. */
struct dp_leaks_evidence dp_leaks_evidence_of(const struct dp_leaks_process *, const struct dp_leaks_curve *,
                                              double all_growth);
/*
 * The same if the program counts as working while it uses CPU time, as far as that is known; by_cpu is set then. The
 * confidence is lower for a cache that is full and goes on being read without any allocation, which else looks like a
 * leak in a program that went idle.
 */
struct dp_leaks_evidence dp_leaks_evidence_by_cpu(const struct dp_leaks_process *, const struct dp_leaks_curve *,
                                                  double all_growth);
