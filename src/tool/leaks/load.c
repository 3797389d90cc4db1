/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/load.c - computes the load of a stack: the number of sampled blocks that were allocated or freed.
 *
 * Growth is the difference of both, so its sampling error is not that of their sum. A load is shrunk towards no change,
 * as most loads vary little (SPREAD).
 */
#include "tool/leaks/load.h"

#include "tool/leaks/curve.h"

#include <math.h>

#define SPREAD    0.3 /* standard deviation of the logarithm of how a load changes */
#define EVENTS    100 /* a load is the mean of so many sampled events */
#define EXPLAINED 0.5 /* of the growth: so much must the rise of a load explain, if it is the reason */

/* Sampled blocks that were allocated or freed from one point to another. */
static double events(const struct dp_leaks_curve *c, size_t first, size_t last)
{
    return dp_leaks_curve_sum(c->allocated_samples, first + 1, last + 1) + dp_leaks_curve_freed(c, first, last);
}

void dp_leaks_load_fill(const struct dp_leaks_curve *c, const struct dp_leaks_clock *k, struct dp_leaks_window *w)
{
    size_t last = k->warm + w->n - 1;
    double whole = fmax(k->active_ns[last] - k->active_ns[0], 1), mean = events(c, 0, last) / whole;
    double blocks = dp_leaks_curve_sum(c->allocated_objects, 1, last + 1) / whole, all = 0;
    for (size_t i = 0; i < w->n; i++) {
        size_t high = k->warm + i, low = high ? high - 1 : 0;
        while (low && high - low < w->n / 4 && events(c, low, high) < EVENTS)
            low--;
        double time = fmax(k->active_ns[high] - k->active_ns[low], 1), n = events(c, low, high);
        double change =
            fmin(n / time / mean, dp_leaks_curve_sum(c->allocated_objects, low + 1, high + 1) / time / blocks);
        double error = 1 / (n / 2 + 0.5), prior = SPREAD * SPREAD;
        w->load[i] = high > low && mean > 0 && change > 0 ? exp(log(change) * prior / (prior + error)) : 1;
        all += w->load[i];
    }
    for (size_t i = 0; i < w->n; i++)
        w->load[i] *= (double)w->n / all;
}

bool dp_leaks_load_rose(const struct dp_leaks_curve *c, const struct dp_leaks_clock *k, size_t first, size_t last)
{
    double time = k->active_ns[last] - k->active_ns[first];
    size_t low = first + 1, high = last - 1;
    while (low + 1 < high && 3 * (k->active_ns[low] - k->active_ns[first]) < time)
        low++;
    while (high > low && 3 * (k->active_ns[last] - k->active_ns[high]) < time)
        high--;
    double before = dp_leaks_curve_sum(c->samples, first, low + 1) / (double)(low + 1 - first),
           now = dp_leaks_curve_sum(c->samples, high, last + 1) / (double)(last + 1 - high);
    double rate_before = events(c, first, low) / fmax(k->active_ns[low] - k->active_ns[first], 1),
           rate_now = events(c, high, last) / fmax(k->active_ns[last] - k->active_ns[high], 1);
    return rate_now - rate_before >= EXPLAINED * rate_before * (now - before) / fmax(before, 1);
}
