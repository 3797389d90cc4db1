/* SPDX-License-Identifier: MIT */
/*
 * query/lasting.c - compares models of growth that goes on with models of growth that has ended.
 *
 * Most leaks free nothing: each sampled block that is in use at the end is an event, and the curve tells in which tick
 * it came. Then each model is a rate of events over time, and its likelihood is the product of the densities of the
 * events, given their number n. The time is scaled to 0..1.
 *
 *  It goes on: the rate is constant (density 1); or from an unknown time t on it is half, or twice, of what it was.
 *  It has ended: from an unknown time t on, not later than LATEST, the rate is 0 or RESIDUE of what it was; or it
 * decays as exp(-k time), as that of a table of which ever less is missing.
 *
 * Unknown times and constants are averaged over (a marginal likelihood), so a model pays for what it leaves open. The
 * quotient of both averages is the Bayes factor (H. Jeffreys 1939, Theory of Probability). With one change at t, and
 * nothing after it, it is (n - 1) / (t^(1 - n) - 1): five blocks say little about the last fifth of the time, fifty
 * much. Events that come in bursts are fewer than they seem: logarithms are divided by the dispersion (R. Wedderburn
 * 1974, Quasi-Likelihood Functions), measured between neighbours (J. von Neumann 1941), so that an end does not count
 * as one.
 *
 * The start of the program, which the caller leaves out, may have its own rate, so it proves nothing. But if its share
 * of the events is the one that a model has at the start, this speaks for the model.
 *
 * If blocks are freed as well, single events are not known. Then the growth of the last quarter is compared with the
 * pace before, which has an error too: with e the growth expected and x the growth seen, both in sampled blocks, the
 * ratio of the likelihoods of e and of e RESIDUE is exp(x ln(1 / RESIDUE) - (1 - RESIDUE) e) for Poisson counts. Growth
 * that varies more has its exponent divided by the ratio of the variances.
 *
 * Before any data, growth is more likely to go on than to have just ended: PRIOR.
 */
#include "query/lasting.h"

#include "query/slope.h"

#include <math.h>

#define RESIDUE   0.15 /* of the pace before: growth that is ending */
#define LATEST    0.75 /* of the time: growth that lasted longer has not ended */
#define SLOWEST   2.4  /* decay: at the end a tenth of the pace at the beginning */
#define PRIOR     1.5  /* odds that growth goes on */
#define FEW_FREED 0.1  /* of the growth: up to this share, single events are known */

static double sum(const double *values, size_t first, size_t last)
{
    double sum = 0;
    for (size_t i = first; i < last; i++)
        sum += values[i];
    return sum;
}

double dp_query_weight_of(const struct dp_query_process *p, const struct dp_query_curve *c)
{
    size_t last = p->n_points - 1;
    return c->samples[last] > 0 ? c->bytes[last] / c->samples[last] : 0;
}

double dp_query_fitted_growth(const struct dp_query_process *p, const double *values, size_t first, size_t last)
{
    double hours = (double)(p->times_ns[last] - p->times_ns[first]) / 3600e9;
    return hours * dp_query_slope_of(p->times_ns, values, first, last + 1).per_hour;
}

double dp_query_sum_of_squares(const double *values, size_t first, size_t last, double mean)
{
    double squares = 0;
    for (size_t i = first; i < last; i++) {
        double d = values[i + 1] - values[i] - mean;
        squares += d * d;
    }
    return squares;
}

double dp_query_freed(const struct dp_query_curve *c, size_t first, size_t last)
{
    return fmax(sum(c->allocated_samples, first + 1, last + 1) - (c->samples[last] - c->samples[first]), 0);
}

double dp_query_line_variance(const struct dp_query_process *p, const struct dp_query_curve *c, size_t first,
                              size_t last)
{
    size_t n = last - first + 1;
    double weight = dp_query_weight_of(p, c), ends = (c->bytes[first] + c->bytes[last]) * weight;
    double per_tick = sum(c->allocated_samples, first + 1, last + 1) / (double)(last - first);
    double life = per_tick > 0 ? sum(c->samples, first, last + 1) / (double)n / per_tick : 1e9;
    double kept = exp(-1 / fmax(life, 1e-3)), line = dp_query_fitted_growth(p, c->bytes, first, last), residue = 0;
    double mean = sum(c->bytes, first, last + 1) / (double)n;
    for (size_t i = first; i <= last; i++) {
        double d = c->bytes[i] - mean - line * ((double)(i - first) / (double)(last - first) - 0.5);
        residue += d * d;
    }
    double variance = fmax(ends / 2, residue / (double)n);
    return fmin(2, 12.0 / (double)n * (1 + kept) / (1 - kept)) * variance;
}

struct dp_query_pace dp_query_pace_of(const struct dp_query_process *p, const struct dp_query_curve *c, size_t first,
                                      size_t last)
{
    double n = (double)(last - first), growth = c->bytes[last] - c->bytes[first], weight = dp_query_weight_of(p, c);
    double walk = dp_query_sum_of_squares(c->bytes, first, last, growth / n);
    double ends = (c->bytes[first] + c->bytes[last]) * weight;
    if (ends < walk / 2) /* it turns over faster than ticks: the line says more than the ends */
        return (struct dp_query_pace){dp_query_fitted_growth(p, c->bytes, first, last) / n,
                                      dp_query_line_variance(p, c, first, last)};
    return (struct dp_query_pace){growth / n, fmax(walk, growth * weight)};
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

/*
 * Events by tick, and the times at which ticks end, from 0 to 1; a tick begins where the one before it ends. Before 0
 * is the start of the program: its length, and its events.
 */
struct events {
    double at[DP_QUERY_POINTS], end[DP_QUERY_POINTS], all;
    size_t n;
    double start, at_start;
    double dispersion;
};

/* The variance of sums over `width` ticks between neighbours, by their mean. */
static double dispersion_of(const struct events *e, size_t width)
{
    double squares = 0, before = 0;
    size_t n = e->n / width;
    for (size_t i = 0; i < n; i++) {
        double now = sum(e->at, e->n - (n - i) * width, e->n - (n - i - 1) * width);
        squares += i ? (now - before) * (now - before) : 0;
        before = now;
    }
    double mean = e->all * (double)width / (double)e->n;
    double error = sqrt(3 / (double)n); /* relative, of Poisson counts */
    return n > 1 && mean > 0 ? squares / (2 * (double)(n - 1) * mean) / (1 + error) : 1;
}

static void find_events(const struct dp_query_process *p, const struct dp_query_curve *c, size_t first,
                        struct events *e)
{
    size_t last = p->n_points - 1;
    double weight = dp_query_weight_of(p, c), time = (double)(p->times_ns[last] - p->times_ns[first]);
    e->n = last - first;
    e->all = 0;
    e->start = fmax((double)(p->times_ns[first] - p->start_ns) / time, 0);
    e->at_start = c->bytes[first] / weight;
    for (size_t i = 0; i < e->n; i++) {
        e->at[i] = fmax(c->bytes[first + i + 1] - c->bytes[first + i], 0) / weight;
        double end = (double)(p->times_ns[first + i + 1] - p->times_ns[first]) / time;
        e->end[i] = fmin(fmax(end, i ? e->end[i - 1] : 0), 1); /* clocks may go back */
        e->all += e->at[i];
    }
    e->dispersion = 1;
    for (size_t width = 1; width <= 4; width *= 2)
        e->dispersion = fmax(e->dispersion, dispersion_of(e, width));
}

/*
 * How much better than any other share the model's share q of events at the start explains their number. Half of this
 * is taken: the start may have its own rate. The other half is the binomial likelihood of q relative to that of the
 * average q, which is B(n1 + 1, n2 + 1), by Laplace's method.
 */
static double start_likelihood(const struct events *e, double q)
{
    double n1 = e->at_start / e->dispersion, n2 = e->all / e->dispersion, f = (n1 + 1) / (n1 + n2 + 2);
    double log_ratio = n1 * log(fmax(q, 1e-9) / f) + n2 * log(fmax(1 - q, 1e-9) / (1 - f));
    return 0.5 + 0.5 * exp(log_ratio) * sqrt((n1 + n2 + 2) / (2 * M_PI * f * (1 - f)));
}

/* The likelihood of a rate that becomes `ratio` of what it was at the end of tick `at`, relative to a constant rate. */
static double step_likelihood(const struct events *e, size_t at, double ratio)
{
    double before = sum(e->at, 0, at + 1), after = e->all - before, t = e->end[at];
    double area = fmax(t + ratio * (1 - t), 1e-9);
    return exp((before * log(1 / area) + (after > 0 ? after * log(fmax(ratio, 1e-9) / area) : 0)) / e->dispersion) *
           start_likelihood(e, e->start / (e->start + area));
}

static double mean_step_likelihood(const struct events *e, double ratio)
{
    double likelihoods = 0;
    for (size_t i = 0; i + 1 < e->n && e->end[i] <= LATEST; i++)
        likelihoods += step_likelihood(e, i, ratio) * (e->end[i + 1] - e->end[i]);
    return likelihoods;
}

static double decay_likelihood(const struct events *e, double k)
{
    double log_likelihood = 0, begin = 0;
    for (size_t i = 0; i < e->n; begin = e->end[i++]) {
        double share = (exp(-k * begin) - exp(-k * e->end[i])) / -expm1(-k);
        if (e->at[i] > 0)
            log_likelihood += e->at[i] * log(fmax(share, 1e-12) / fmax(e->end[i] - begin, 1e-9));
    }
    double before = expm1(k * fmin(e->start, 1));
    return exp(log_likelihood / e->dispersion) * start_likelihood(e, before / (before - expm1(-k)));
}

static double by_events(const struct events *e)
{
    double on = 0.5 * start_likelihood(e, e->start / (e->start + 1));
    on += 0.25 * mean_step_likelihood(e, 0.5) + 0.25 * mean_step_likelihood(e, 2);
    double ended = 0.25 * mean_step_likelihood(e, 0) + 0.25 * mean_step_likelihood(e, RESIDUE);
    for (double k = SLOWEST; k <= 5 * SLOWEST; k *= 2)
        ended += 0.5 / 3 * decay_likelihood(e, k);
    return PRIOR * on / (PRIOR * on + ended);
}

/* ---- growth of the last quarter --------------------------------------------------------------------------------- */

double dp_query_lasting(const struct dp_query_process *p, const struct dp_query_curve *c, size_t first, double *pace)
{
    size_t last = p->n_points - 1, late_at = last - (last + 2) / 4;
    double late_time = (double)(p->times_ns[last] - p->times_ns[late_at]);
    double early_time = (double)(p->times_ns[late_at] - p->times_ns[first]);
    *pace = -1;
    if (late_time <= 0 || early_time <= 0)
        return 0;
    double weight = dp_query_weight_of(p, c);
    double n_late = (double)(last - late_at), n_early = (double)(late_at - first), times = late_time / early_time;
    struct dp_query_pace late = dp_query_pace_of(p, c, late_at, last), early = dp_query_pace_of(p, c, first, late_at);
    double late_growth = n_late * late.per_tick, expected = n_early * early.per_tick * times;
    if (expected > 0)
        *pace = late_growth / expected;
    double growth = c->samples[last] - c->samples[first];
    if (weight > 0 && dp_query_freed(c, first, last) <= FEW_FREED * growth) {
        struct events e;
        find_events(p, c, first, &e);
        return by_events(&e);
    }
    if (expected <= 0)
        return late_growth > 0;
    double variance = fmax(late.variance, fmax(early.variance * times, expected * weight) / 2);
    variance += times * times * early.variance;
    double log_odds = (late_growth * log(1 / RESIDUE) - expected * (1 - RESIDUE)) * expected / fmax(variance, 1);
    return PRIOR / (PRIOR + exp(-log_odds));
}
