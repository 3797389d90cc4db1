/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/points.c - keeps few points of a curve.
 *
 * Points with the least work are joined first, so that an hour of idle time after a minute of load leaves the points of
 * the load alone.
 */
#include "tool/leaks/points.h"

#include <math.h>
#include <string.h>

/* Joins a point with the next one. */
static void join(double *values, size_t at, size_t n, bool is_sum)
{
    if (is_sum)
        values[at + 1] += values[at];
    memmove(values + at, values + at + 1, (n - at - 1) * sizeof *values);
    values[n - 1] = 0;
}

/* Whether a point has less than a tenth of the mean work of a time. */
static bool is_idle(const struct dp_leaks_process *p, size_t at, double all_work)
{
    double time = (double)(p->times_ns[at] - p->times_ns[at - 1]),
           all_time = (double)(p->times_ns[p->n_points - 1] - p->times_ns[0]);
    return p->work[at] * all_time < 0.1 * all_work * time;
}

/*
 * The share of the work of the process in two neighbouring points, and a little of their share of time. Work and idle
 * time are joined last.
 */
static double cost_of_pair(const struct dp_leaks_process *p, size_t at, double all_work)
{
    if (is_idle(p, at, all_work) != is_idle(p, at + 1, all_work))
        return 1;
    double time = (double)(p->times_ns[at + 1] - p->times_ns[at - 1]);
    double all_time = (double)(p->times_ns[p->n_points - 1] - p->times_ns[0]);
    return (p->work[at] + p->work[at + 1]) / fmax(all_work, 1) + 0.05 * time / fmax(all_time, 1);
}

void dp_leaks_points_join(struct dp_leaks_series *s, struct dp_leaks_process *p)
{
    double all_work = 0;
    for (size_t i = 0; i < p->n_points; i++)
        all_work += p->work[i];
    for (size_t n = p->n_points; n > DP_QUERY_POINTS / 2; n = --p->n_points) {
        size_t best = 1;
        for (size_t i = 2; i + 1 < n; i++)
            if (cost_of_pair(p, i, all_work) < cost_of_pair(p, best, all_work))
                best = i;
        join(p->work, best, n, true);
        join(p->cpu_ns, best, n, true);
        memmove(p->times_ns + best, p->times_ns + best + 1, (n - best - 1) * sizeof *p->times_ns);
        for (size_t i = p->first_curve; i < s->curves.n; i++) {
            struct dp_leaks_curve *c = &s->curves.at[i];
            join(c->bytes, best, n, false);
            join(c->samples, best, n, false);
            join(c->allocated_samples, best, n, true);
            join(c->allocated_objects, best, n, true);
        }
    }
}
