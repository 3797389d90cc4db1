/* SPDX-License-Identifier: MIT */
/* tool/leaks/models.h - how well models of growth that goes on, has ended, or never was explain the curve of a stack.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { DP_LEAKS_POINTS = 64 };

/* Sampled blocks: growth by fewer, of blocks that turn over, is no leak that can be seen. */
#define DP_LEAKS_FEWEST 2.5

/* A curve in sampled blocks. Time is that in which the program worked: 0 at the first point, 1 at the last one. */
struct dp_leaks_window {
    size_t n;                       /* points, at least 2 */
    double at[DP_LEAKS_POINTS];     /* their times */
    double in_use[DP_LEAKS_POINTS]; /* at the end of each */
    double load[DP_LEAKS_POINTS];   /* rate of allocation, 1 in the mean; all 1: it tells nothing */
    double start;                   /* time before the first point, in the same unit */
    bool is_kept;                   /* almost nothing was freed */

    /* All points from the program's start on, of which the n above are the last: for models of the order of frees. */
    size_t n_all, first;                                        /* all_at[first] is at[0] */
    double all_at[DP_LEAKS_POINTS], allocated[DP_LEAKS_POINTS]; /* sampled blocks, in the unit of in_use */
    double all_clock_at[DP_LEAKS_POINTS], clock_start; /* the same times and start by the clock, without idle time */
};

/* Likelihoods, relative to each other: each is the average over the models of its kind. */
struct dp_leaks_likelihoods {
    double goes_on, ended, steady, by_load;
    bool has_order; /* that blocks are freed in order, after a constant time, explains the curve */
};

struct dp_leaks_likelihoods dp_leaks_compare(const struct dp_leaks_window *);
