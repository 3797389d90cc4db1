/* SPDX-License-Identifier: MIT */
/* tool/leaks/curve.c - sums over the points of a curve. */
#include "tool/leaks/curve.h"

#include <math.h>

double dp_leaks_curve_sum(const double *values, size_t first, size_t last)
{
    double sum = 0;
    for (size_t i = first; i < last; i++)
        sum += values[i];
    return sum;
}

double dp_leaks_curve_freed(const struct dp_leaks_curve *c, size_t first, size_t last)
{
    double allocated = dp_leaks_curve_sum(c->allocated_samples, first + 1, last + 1);
    return fmax(allocated - (c->samples[last] - c->samples[first]), 0);
}
