/* SPDX-License-Identifier: MIT */
/* tool/leaks/clock.h - the time in which a program worked. */
#pragma once

#include "tool/leaks/series.h"

#include <stdbool.h>

/* As a stack sees it. */
struct dp_leaks_clock {
    int64_t end_ns[DP_QUERY_POINTS];   /* of each point, since the start of the program */
    double active_ns[DP_QUERY_POINTS]; /* the same by the clock, without idle time */
    int64_t clock_ns[DP_QUERY_POINTS]; /* the same, but a point beside work is not idle: few samples come unevenly */
    size_t n_work;                     /* points in which the program was not idle */
    size_t warm;                       /* the first point that counts: that of the first quarter */
};

/* by_cpu: a program that uses CPU time is not idle, even if it allocates nothing. */
void dp_leaks_clock_of(const struct dp_leaks_process *, const struct dp_leaks_curve *, bool by_cpu,
                       struct dp_leaks_clock *);
/* The same clock, by which work counts as long as it lasts, and not by how much it is. n: points. */
struct dp_leaks_clock dp_leaks_clock_even(const struct dp_leaks_clock *, size_t n);
/* A pace in bytes an hour of work from one point to another, by the clock without idle time. */
double dp_leaks_clock_pace(const struct dp_leaks_clock *, double per_hour, size_t first, size_t last);
/* How many points there are in which the process worked, or a stack of many samples, and for how long that was. */
size_t dp_leaks_clock_work(const struct dp_leaks_process *, const struct dp_leaks_curve *curves, size_t n_curves,
                           double *work_ns);
