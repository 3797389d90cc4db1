/* SPDX-License-Identifier: MIT */
/* tool/leaks/slope.h - computes how fast and how steadily a curve rises. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct dp_leaks_slope {
    double per_hour;   /* of the line that fits best (least squares) */
    double steadiness; /* Kendall's tau: 1 each point is higher than all before it, 0 no trend, -1 falls */
};

/* Of points first..last, last not included; fewer than two have no slope. */
struct dp_leaks_slope dp_leaks_slope_of(const int64_t *times_ns, const double *values, size_t first, size_t last);
