/* SPDX-License-Identifier: MIT */
/*
 * query/evidence.c - decides whether growth is a leak, or a cache, a table, a higher load, or chance.
 *
 * A leak is growth that does not end. So only the second half of the ticks is used, when caches have filled and tables
 * are built. Three conditions:
 *
 *  - Its growth, in sampled blocks, must be more than chance makes. The growth is that of the line which fits best
 *    (least squares): where each of n points has its own error of variance v, the growth along the line has a variance
 *    of 12 v / n, and the difference of its two ends one of 2 v. If nothing leaks, the blocks in use at the two ends
 * are two independent draws with a variance of at most their sum, as sampled counts are Poisson's; if few blocks were
 *    allocated and freed in between, the draws share most of their blocks, and the variance is at most the number of
 *    those events. z = growth / sqrt(the smaller of the two). A program has many stacks, and each has its chance to
 *    look like a leak: so CHANCE standard deviations are taken off.
 *  - It must be spread: the trend (Kendall's tau, M. Kendall 1938, A New Measure of Rank Correlation) is high when
 * every tick adds something, and low for one step, which is a load that doubled or a table that grew, and for what goes
 * up and down.
 *  - The growth must continue: in the last quarter of the time it must not have slowed to a fraction of its earlier
 *    pace. Both paces are those of fitted lines; the later one gets one standard deviation on top, which chance may
 *    have hidden.
 *
 * The confidence is the product of the three, each between 0 and 1. If a process has too few ticks, only its end can be
 * used: memory that was allocated repeatedly, never freed, and is in use at the end was probably leaked.
 */
#include "query/evidence.h"

#include "query/slope.h"

#include <math.h>

enum {
    MANY_LEFT = 8, /* sampled blocks in use at the end of a program, none ever freed: too many for a table */
};
#define CHANCE     1.0 /* standard deviations of growth that prove nothing */
#define STEP_SHARE 0.7 /* of the growth in one tick: a step, not a trend */

static double clamp(double value)
{
    return value < 0 ? 0 : value > 1 ? 1 : value;
}

/* The probability that chance alone gives less than z: 0.5 at z = 0. */
static double probability(double z)
{
    return 0.5 * erfc(-z / sqrt(2));
}

static double sum(const double *values, size_t first, size_t last)
{
    double sum = 0;
    for (size_t i = first; i < last; i++)
        sum += values[i];
    return sum;
}

/* Growth of the samples from one point to another, along the line that fits best. */
static double fitted_growth(const struct dp_query_process *p, const struct dp_query_curve *c, size_t first, size_t last)
{
    double hours = (double)(p->times_ns[last] - p->times_ns[first]) / 3600e9;
    return hours * dp_query_slope_of(p->times_ns, c->samples, first, last + 1).per_hour;
}

/* The standard deviation that chance gives to the samples' growth from one point to another, 1 at least. */
static double deviation(const struct dp_query_curve *c, size_t first, size_t last)
{
    double growth = c->samples[last] - c->samples[first];
    double allocated = sum(c->allocated_samples, first + 1, last + 1);
    double events = 2 * allocated - growth; /* allocations and frees */
    double level = c->samples[first] + c->samples[last];
    return sqrt(fmax(fmin(fmax(events, growth), level), 1));
}

/* The largest share of a single step in the growth between two points. */
static double largest_step(const struct dp_query_curve *c, size_t first, size_t last)
{
    double growth = c->bytes[last] - c->bytes[first], largest = 0;
    for (size_t i = first; i < last; i++)
        largest = fmax(largest, c->bytes[i + 1] - c->bytes[i]);
    return growth > 0 ? largest / growth : 1;
}

/* The pace of the growth in the last quarter, relative to its earlier pace: 1 the same, 0 no growth. */
static double persistence(const struct dp_query_process *p, const struct dp_query_curve *c)
{
    size_t last = p->n_points - 1, late = last - (last + 2) / 4, early = last / 4;
    double late_time = (double)(p->times_ns[last] - p->times_ns[late]);
    double before_time = (double)(p->times_ns[late] - p->times_ns[early]);
    double late_growth = fitted_growth(p, c, late, last), before_growth = fitted_growth(p, c, early, late);
    if (before_growth <= 0 || late_time <= 0 || before_time <= 0)
        return late_growth > 0;
    double expected = before_growth * late_time / before_time;
    double seen = late_growth + deviation(c, late, last); /* chance may have hidden some of it */
    return clamp(2 * seen / expected - 0.5);
}

/* The time at which the growth began: 95 % of the growth comes after it. */
static int64_t since(const struct dp_query_process *p, const struct dp_query_curve *c)
{
    size_t last = p->n_points - 1, at = 0;
    double growth = c->bytes[last] - c->bytes[0];
    while (at + 1 < last && c->bytes[at + 1] - c->bytes[0] < growth / 20)
        at++;
    return at || c->bytes[0] > growth / 20 ? p->times_ns[at] : p->start_ns;
}

static struct dp_query_evidence left_at_end(const struct dp_query_process *p, const struct dp_query_curve *c)
{
    struct dp_query_evidence evidence = {.verdict = DP_QUERY_STEADY};
    double allocated = sum(c->allocated_samples, 0, p->n_points ? p->n_points : 1);
    double left = p->ended ? c->end_samples : 0;
    if (p->destroyed) /* what destructors free was known to the program */
        left = fmin(left, c->after_samples);
    double freed = fmax(allocated - left, 0);
    if (left >= MANY_LEFT && freed < left / 50) {
        evidence.verdict = DP_QUERY_LEFT;
        evidence.confidence = 0.6 * (1 - (freed + 1) / (left + freed + 2));
        evidence.since_ns = p->start_ns;
    }
    return evidence;
}

struct dp_query_evidence dp_query_evidence_of(const struct dp_query_process *p, const struct dp_query_curve *c)
{
    if (p->n_points < DP_QUERY_TICKS_NEEDED)
        return left_at_end(p, c);
    size_t last = p->n_points - 1, half = last / 2;
    struct dp_query_slope slope = dp_query_slope_of(p->times_ns, c->bytes, half, last + 1);
    struct dp_query_evidence evidence = {.verdict = DP_QUERY_STEADY, .bytes_per_hour = slope.per_hour};
    double late_growth = fitted_growth(p, c, half, last), early_growth = c->samples[half];
    if (late_growth <= 0 || c->bytes[last] <= c->bytes[half]) {
        evidence.verdict =
            early_growth > 0 && sum(c->allocated_samples, half + 1, last + 1) < 0.5 ? DP_QUERY_ONCE : DP_QUERY_STEADY;
        return evidence;
    }
    double step = largest_step(c, half, last), usual = 1.0 / (double)(last - half);
    double spread = clamp((1 - step) / (1 - fmax(STEP_SHARE, usual)));
    double trend = clamp((slope.steadiness - 0.2) / 0.6);
    double goes_on = persistence(p, c);
    double z = late_growth / deviation(c, half, last);
    evidence.confidence = clamp(2 * probability(z - CHANCE) - 1) * trend * goes_on * spread;
    evidence.verdict = evidence.confidence >= 0.5 ? DP_QUERY_GROWING
                       : goes_on < 0.5            ? DP_QUERY_FILLED
                                                  : DP_QUERY_STEADY;
    evidence.since_ns = since(p, c);
    return evidence;
}
