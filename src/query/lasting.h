/* SPDX-License-Identifier: MIT */
/* query/lasting.h - the probability that the growth of a stack has not ended. */
#pragma once

#include "query/series.h"

/*
 * From the point `first` to the last one, which grew. *pace: that of the last quarter of the time relative to before;
 * -1: not known.
 */
double dp_query_lasting(const struct dp_query_process *, const struct dp_query_curve *, size_t first, double *pace);

/* The growth from one point to another, per tick, and the variance of its sum over all of these ticks. */
struct dp_query_pace {
    double per_tick, variance;
};
struct dp_query_pace dp_query_pace_of(const struct dp_query_process *, const struct dp_query_curve *, size_t first,
                                      size_t last);

/* Helpers over the values of a curve. */
/* Bytes that a sampled block counts for, in the mean; 0: none is in use at the end. */
double dp_query_weight_of(const struct dp_query_process *, const struct dp_query_curve *);
/* Growth along the line that fits best: of what turns over, the two ends alone say less. */
double dp_query_fitted_growth(const struct dp_query_process *, const double *values, size_t first, size_t last);
/*
 * The variance of that growth without a leak. In a line through n independent points it is 12 / n of the variance of a
 * point, which is Poisson's or that of the points around the line. Blocks that live longer than a tick make the points
 * depend on each other; then the variance is up to that of two independent ends.
 */
double dp_query_line_variance(const struct dp_query_process *, const struct dp_query_curve *, size_t first,
                              size_t last);
/* The sum of the squared differences from tick to tick, less `mean` each. */
double dp_query_sum_of_squares(const double *values, size_t first, size_t last, double mean);
/* Sampled blocks that were freed from one point to another. */
double dp_query_freed(const struct dp_query_curve *, size_t first, size_t last);
