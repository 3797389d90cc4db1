/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/points.c - keeps few points of a curve, and those that say something.
 *
 * Points with the least work are joined first, so that an hour of idle time after a minute of load leaves the points of
 * the load alone.
 */
#include "tool/leaks/points.h"

#include <math.h>
#include <string.h>

/* A program was ending when it had at most so much of its memory in use, and of its work to do, in its last points. */
#define SHUTDOWN_LEFT 0.9
#define SHUTDOWN_WORK 0.02
enum { SHUTDOWN_POINTS = 6, POINTS_LEFT = 4 /* what is judged has at least so many */ };

#define TEARDOWN_LEFT 0.5  /* of what was in use before a point: with less left, all of it may be teardown */
#define TEARDOWN_LIKE 0.25 /* of the bytes of the teardown: an earlier fall of so many is like it */

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

static double all_in_use(const struct dp_leaks_series *s, const struct dp_leaks_process *p, size_t at)
{
    double bytes = 0;
    for (size_t i = p->first_curve; i < s->curves.n; i++)
        bytes += s->curves.at[i].bytes[at];
    return bytes;
}

void dp_leaks_points_skip_shutdown(const struct dp_leaks_series *s, struct dp_leaks_process *p)
{
    double work = 0, later = 0, most = 0;
    size_t n = p->n_points, best = n;
    for (size_t i = 0; i < n; i++)
        work += p->work[i];
    for (size_t i = n; p->ended && i-- > 0 && i + SHUTDOWN_POINTS >= n && later <= SHUTDOWN_WORK * work;
         later += p->work[i]) {
        double bytes = all_in_use(s, p, i);
        if (bytes > most)
            most = bytes, best = i + 1;
    }
    if (best < n && all_in_use(s, p, n - 1) < SHUTDOWN_LEFT * most)
        p->n_points = best;
    double bytes[DP_QUERY_POINTS];
    for (size_t i = 0; i < p->n_points; i++)
        bytes[i] = all_in_use(s, p, i);
    *p = dp_leaks_points_before_teardown(p, bytes);
}

struct dp_leaks_process dp_leaks_points_before_teardown(const struct dp_leaks_process *p, const double *bytes)
{
    struct dp_leaks_process before = *p;
    size_t n = p->n_points, first = n;
    while (p->ended && first > POINTS_LEFT && bytes[first - 1] < TEARDOWN_LEFT * bytes[first - 2])
        first--;
    first -=
        p->ended && first > POINTS_LEFT && bytes[first - 1] < SHUTDOWN_LEFT * bytes[first - 2]; /* it began in it */
    double fell = 0;
    for (size_t i = 1; i < first && first < n; i++) {
        fell = bytes[i] < bytes[i - 1] ? fell + bytes[i - 1] - bytes[i] : 0;
        if (fell > 0 && fell >= TEARDOWN_LIKE * (bytes[first - 1] - bytes[n - 1]))
            first = n;
    }
    before.n_points = first;
    return before;
}
