/* SPDX-License-Identifier: MIT */
/* tool/leaks/curve.h - sums over the points of a curve. */
#pragma once

#include "tool/leaks/series.h"

/* The sum of values[first] to values[last - 1]. */
double dp_leaks_curve_sum(const double *values, size_t first, size_t last);
/* The sampled blocks that were freed after the point `first`, until the point `last`. */
double dp_leaks_curve_freed(const struct dp_leaks_curve *, size_t first, size_t last);
