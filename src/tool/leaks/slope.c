/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/slope.c - computes the slope by least squares and the trend by Kendall's tau, which is robust against
 * outliers.
 */
#include "tool/leaks/slope.h"

struct dp_leaks_slope dp_leaks_slope_of(const int64_t *times_ns, const double *values, size_t first, size_t last)
{
    struct dp_leaks_slope slope = {0, 0};
    double n = (double)(last - first), t_mean = 0, v_mean = 0, tt = 0, tv = 0, pairs = 0;
    if (last < first + 2)
        return slope;
    for (size_t i = first; i < last; i++) {
        t_mean += (double)(times_ns[i] - times_ns[first]) / n;
        v_mean += (values[i] - values[first]) / n; /* of what does not change, exactly 0 */
    }
    for (size_t i = first; i < last; i++) {
        double t = (double)(times_ns[i] - times_ns[first]) - t_mean;
        tt += t * t;
        tv += t * (values[i] - values[first] - v_mean);
        for (size_t j = i + 1; j < last; j++) {
            slope.steadiness += (values[j] > values[i]) - (values[j] < values[i]);
            pairs++;
        }
    }
    slope.steadiness /= pairs;
    slope.per_hour = tt > 0 ? tv / tt * 3600e9 : 0;
    return slope;
}
