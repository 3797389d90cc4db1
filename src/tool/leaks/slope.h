/* SPDX-License-Identifier: MIT */
/* tool/leaks/slope.h - computes how fast and how steadily the values of a series rise over time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct dp_leaks_slope {
    double per_hour;   /* rise of the line that fits best (least squares) */
    double steadiness; /* Kendall's tau: 1 each value is above all earlier ones, 0 no trend, -1 each is below them */
};

/* Of the points [first, last). Fewer than two points: all zeros. */
struct dp_leaks_slope dp_leaks_slope_of(const int64_t *times_ns, const double *values, size_t first, size_t last);
