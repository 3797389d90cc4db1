/* SPDX-License-Identifier: MIT */
/*
 * query/evidence.c - decides whether growth is a leak, or chance, a higher load, a cache that fills, or a single step.
 *
 * The data. A curve has the bytes in use of one stack at the end of each tick. A block is sampled with probability p
 * and counts as 1/p blocks: it moves the curve by w = size / p bytes when it is allocated, and by -w when it is freed.
 * A sampled block is followed until its free, so a curve is exact for the sampled blocks, and only which blocks are
 * sampled is chance. A leak is growth that does not end. Each other cause of growth has a test; the confidence is the
 * product of the probabilities that the cause is not the explanation. The first quarter of the time is left out: all
 * programs grow when they start.
 *
 *  1. Chance. With d1..dn the differences from tick to tick, the growth D is their sum. If nothing leaks, a difference
 *     is as likely to be up as down. Then P(D / sqrt(sum of squares) >= z) <= exp(-z^2 / 2), whatever the distribution
 *     of the differences (B. Efron 1969, Student's t-Test Under Symmetry Conditions). The sum of squares estimates the
 *     variance of D: of sampling (each event adds w^2, the variance of a Poisson sum) and of the program. Blocks that
 *     are allocated and freed within a tick add nothing. So n steps up and none down are z = sqrt(n).
 *     That variance is too large if blocks turn over fast: then the two ends are independent Poisson draws, whose
 *     difference has a variance of w times their sum, and the smaller of both variances holds. As many blocks must have
 *     been freed as were in use, and the trend (Kendall's tau, M. Kendall 1938, A New Measure of Rank Correlation) must
 *     agree.
 *     A program has many stacks, and each has its chance to look like a leak. So the probability is divided by the
 *     stack's share of all growth of the process (a weighted Bonferroni correction): the stack with most of the growth
 *     needs less proof than one of a thousand small ones.
 *  2. A step. One step is a load that rose or a table that was built: its share of the growth must be small.
 *  3. An end. Growth that is ending has, in the last quarter, a small share q = ENDED of its pace before; a leak has
 *     all of its pace. With e the growth expected from the pace before and x the growth seen, both in sampled blocks,
 *     the ratio of the two Poisson likelihoods is exp(x ln(1/q) - (1 - q) e). Growth that varies more than Poisson's
 *     has its exponent divided by the ratio of the variances, which are taken from the differences around their mean.
 *  4. Load. By Little's law (J. Little 1961, A Proof for the Queuing Formula L = lambda W) the number in use is the
 *     rate of allocation times the mean lifetime. If a stack allocates more in the second half than in the first, its
 *     memory in use may grow by the same factor. The ratio of the two Poisson counts has a variance of 1/a + 1/b on a
 *     log scale, and is shrunk towards no change, as most loads vary little (LOAD_SPREAD). Memory that is never freed
 *     has no mean lifetime. So the probability that load explains the growth is multiplied by the number of blocks
 *     freed per block in use, at most by 1.
 *
 * A buffer that doubles when it is full (a vector, a string, a hash's buckets) grows in steps ever farther apart,
 * although its content grows steadily. At each step the size of the content is known: the buffer was full. So the pace
 * of the content is known, and the time when the buffer will be full next. It counts as growing until twice that time.
 *
 * If a process has too few ticks, only its end can be used: memory that was allocated repeatedly, almost never freed,
 * and is in use at the end was probably leaked. If f of n
 * blocks were freed, the chance that the next one is freed is (f + 1) / (n + 2) by Laplace's rule of succession, which
 * Scalene uses for its leak score as well.
 */
#include "query/evidence.h"

#include "query/slope.h"

#include <math.h>

enum {
    MANY_LEFT = 8,    /* sampled blocks in use at the end of a program, almost none freed: too many for a table */
    FEWEST_STEPS = 3, /* of a buffer that doubles */
};
#define ENDED       0.15 /* of the pace before: growth that is ending */
#define STEP_SHARE  0.5  /* of the growth in one tick: up to this share it may be a trend */
#define LOAD_SPREAD 0.3  /* standard deviation of the logarithm of how a load changes */
#define STEP        1.3  /* factor of a step of a buffer that doubles */

static double clamp(double value)
{
    return value < 0 ? 0 : value > 1 ? 1 : value;
}

/* The probability that a normal variable is less than z: 0.5 at z = 0. */
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

/* The first point that counts: that of the first quarter. */
static size_t warm(const struct dp_query_process *p)
{
    return (p->n_points + 2) / 4;
}

/* Bytes that a sampled block counts for, in the mean; 0: none is in use at the end. */
static double weight_of(const struct dp_query_process *p, const struct dp_query_curve *c)
{
    size_t last = p->n_points - 1;
    return c->samples[last] > 0 ? c->bytes[last] / c->samples[last] : 0;
}

/* ---- chance, and a step ----------------------------------------------------------------------------------------- */

static double sum_of_squares(const double *values, size_t first, size_t last, double mean)
{
    double squares = 0;
    for (size_t i = first; i < last; i++) {
        double d = values[i + 1] - values[i] - mean;
        squares += d * d;
    }
    return squares;
}

/* The largest share of a single step in the growth between two points. */
static double largest_step(const struct dp_query_curve *c, size_t first, size_t last)
{
    double growth = c->bytes[last] - c->bytes[first], largest = 0;
    for (size_t i = first; i < last; i++)
        largest = fmax(largest, c->bytes[i + 1] - c->bytes[i]);
    return growth > 0 ? largest / growth : 1;
}

/* Growth along the line that fits best: of what turns over, the two ends alone say less. */
static double fitted_growth(const struct dp_query_process *p, const double *values, size_t first, size_t last)
{
    double hours = (double)(p->times_ns[last] - p->times_ns[first]) / 3600e9;
    return hours * dp_query_slope_of(p->times_ns, values, first, last + 1).per_hour;
}

/* Sampled blocks that were freed from one point to another. */
static double freed(const struct dp_query_curve *c, size_t first, size_t last)
{
    return fmax(sum(c->allocated_samples, first + 1, last + 1) - (c->samples[last] - c->samples[first]), 0);
}

/* The probability that a stack without a leak grows as much, before the correction for many stacks. */
static double chance(const struct dp_query_process *p, const struct dp_query_curve *c, size_t first, size_t last)
{
    double growth = c->bytes[last] - c->bytes[first], walk = sum_of_squares(c->bytes, first, last, 0);
    double by_walk = walk > 0 ? exp(-growth * growth / walk / 2) : 1;
    double fitted = fitted_growth(p, c->bytes, first, last);
    double ends = (c->bytes[first] + c->bytes[last]) * weight_of(p, c);
    double by_ends = fitted > 0 && ends > 0 ? exp(-fitted * fitted / ends / 2) : 1;
    double trend = clamp((dp_query_slope_of(p->times_ns, c->bytes, first, last + 1).steadiness - 0.2) / 0.4);
    double turned_over = clamp(freed(c, first, last) / fmax(c->samples[last], 1));
    return fmin(by_walk, 1 - trend * turned_over * (1 - by_ends));
}

/* ---- an end ----------------------------------------------------------------------------------------------------- */

/* The growth from one point to another, per tick, and the variance of its sum over all of these ticks. */
struct pace {
    double per_tick, variance;
};

static struct pace pace_of(const struct dp_query_process *p, const struct dp_query_curve *c, size_t first, size_t last)
{
    double n = (double)(last - first), growth = c->bytes[last] - c->bytes[first], weight = weight_of(p, c);
    double walk = sum_of_squares(c->bytes, first, last, growth / n), ends = (c->bytes[first] + c->bytes[last]) * weight;
    if (ends < walk / 2) /* it turns over faster than ticks: the line says more than the ends */
        return (struct pace){fitted_growth(p, c->bytes, first, last) / n, ends};
    return (struct pace){growth / n, fmax(walk, growth * weight)};
}

/* The probability that growth has not ended in the last quarter; *ratio is the pace in it to that before. */
static double goes_on(const struct dp_query_process *p, const struct dp_query_curve *c, size_t first, double *ratio)
{
    size_t last = p->n_points - 1, late_at = last - (last + 2) / 4;
    double late_time = (double)(p->times_ns[last] - p->times_ns[late_at]);
    double early_time = (double)(p->times_ns[late_at] - p->times_ns[first]);
    *ratio = -1;
    if (late_time <= 0 || early_time <= 0)
        return 0;
    double n_late = (double)(last - late_at), n_early = (double)(late_at - first), times = late_time / early_time;
    struct pace late = pace_of(p, c, late_at, last), early = pace_of(p, c, first, late_at);
    double late_growth = n_late * late.per_tick, expected = n_early * early.per_tick * times;
    if (expected <= 0)
        return late_growth > 0;
    *ratio = late_growth / expected;
    double variance = fmax(late.variance, fmax(early.variance * times, expected * weight_of(p, c)) / 2);
    variance += times * times * early.variance;
    double log_odds = (late_growth * log(1 / ENDED) - expected * (1 - ENDED)) * expected / fmax(variance, 1);
    return 1 / (1 + exp(-log_odds));
}

/* ---- load ------------------------------------------------------------------------------------------------------- */

/* The probability that there is growth which a higher load does not explain; *share of the growth that it explains. */
static double beyond_load(const struct dp_query_process *p, const struct dp_query_curve *c, double *share)
{
    size_t last = p->n_points - 1, half = last / 2;
    double time = (double)(p->times_ns[half] - p->times_ns[0]) / (double)(p->times_ns[last] - p->times_ns[half]);
    double n_before = sum(c->allocated_samples, 1, half + 1), n_after = sum(c->allocated_samples, half + 1, last + 1);
    double before = sum(c->allocated_objects, 1, half + 1), after = sum(c->allocated_objects, half + 1, last + 1);
    double growth = c->bytes[last] - c->bytes[half];
    *share = 0;
    if (before <= 0 || after * time <= before || growth <= 0)
        return 1;
    double error = 1 / (n_before + 0.5) + 1 / (n_after + 0.5), prior = LOAD_SPREAD * LOAD_SPREAD;
    double change = log(after * time / before) * prior / (prior + error);
    double explained = c->bytes[half] * expm1(change);
    double deviation = c->bytes[half] * exp(change) * sqrt(prior * error / (prior + error));
    double noise = pace_of(p, c, half, last).variance;
    *share = clamp(explained / growth);
    double turned_over =
        clamp(freed(c, half, last) / fmax(c->samples[half], 1)); /* where nothing is freed, no lifetime is known */
    return 1 - turned_over * 2 * probability((explained - growth) / sqrt(fmax(deviation * deviation + noise, 1)));
}

/* ---- buffers that double ---------------------------------------------------------------------------------------- */

/* Whether the curve is flat between steps of at least STEP; then *e has the verdict. */
static bool doubles(const struct dp_query_process *p, const struct dp_query_curve *c, double all_growth,
                    struct dp_query_evidence *e)
{
    size_t last = p->n_points - 1, at[DP_QUERY_POINTS], n = 0;
    double steps = 0, other = 0;
    for (size_t i = 1; i <= last; i++) {
        double step = c->bytes[i] - c->bytes[i - 1];
        if (c->bytes[i - 1] > 0 && c->bytes[i] >= STEP * c->bytes[i - 1]) {
            at[n++] = i;
            steps += step;
        } else if (n) {
            other += fabs(step);
        }
    }
    if (n < FEWEST_STEPS || other > steps / 10)
        return false;
    size_t now = at[n - 1], before = at[n - 2];
    if (c->samples[last] <= 0 || c->samples[before - 1] <= 0 ||
        c->bytes[last] / c->samples[last] < 1.5 * c->bytes[before - 1] / c->samples[before - 1])
        return false; /* more blocks, not larger ones */
    /* It was full at both steps. */
    double time = (double)(p->times_ns[now] - p->times_ns[before]);
    double pace = (c->bytes[now - 1] - c->bytes[before - 1]) / time;
    double to_full = (c->bytes[now] - c->bytes[now - 1]) / pace, since = (double)(p->times_ns[last] - p->times_ns[now]);
    if (pace <= 0)
        return false;
    double is_due = clamp(2 - since / to_full), share = all_growth > 0 ? clamp(steps / all_growth) : 1;
    e->n_up = n;
    e->n_down = 0;
    e->chance = clamp(exp(-(double)n / 2) / fmax(share, 1e-9));
    e->pace = clamp(to_full / fmax(since, 1));
    e->confidence = (1 - e->chance) * is_due;
    e->verdict = e->confidence >= 0.5 ? DP_QUERY_DOUBLING : DP_QUERY_FILLED;
    e->bytes_per_hour = pace * 3600e9;
    return true;
}

/* ---- the verdict ------------------------------------------------------------------------------------------------ */

/* The time at which the growth began: 95 % of the growth comes after it. */
static int64_t since(const struct dp_query_process *p, const struct dp_query_curve *c)
{
    size_t last = p->n_points - 1, at = 0;
    double growth = c->bytes[last] - c->bytes[0];
    while (at + 1 < last && c->bytes[at + 1] - c->bytes[0] < growth / 20)
        at++;
    return at || c->bytes[0] > growth / 20 ? p->times_ns[at] : p->start_ns;
}

static void left_at_end(const struct dp_query_process *p, const struct dp_query_curve *c, struct dp_query_evidence *e)
{
    double left = p->ended ? c->end_samples : 0;
    e->n_sampled += c->end_allocated_samples;
    if (p->n_after) /* what destructors free was known to the program */
        left = fmin(left, c->after_samples);
    double freed = fmax(e->n_sampled - left, 0);
    e->freed = e->n_sampled > 0 ? freed / e->n_sampled : 0;
    if (left >= MANY_LEFT && freed < left / 50) {
        e->verdict = DP_QUERY_LEFT;
        e->confidence = 0.6 * (1 - (freed + 1) / (left + freed + 2));
        e->since_ns = p->start_ns;
    }
}

static void count_steps(const struct dp_query_curve *c, size_t first, size_t last, struct dp_query_evidence *e)
{
    e->n_steps = last - first;
    for (size_t i = first; i < last; i++) {
        e->n_up += c->bytes[i + 1] > c->bytes[i];
        e->n_down += c->bytes[i + 1] < c->bytes[i];
    }
}

double dp_query_evidence_growth(const struct dp_query_process *p, const struct dp_query_curve *c)
{
    size_t last = p->n_points - 1;
    return p->n_points < DP_QUERY_TICKS_NEEDED ? 0 : fmax(c->bytes[last] - c->bytes[warm(p)], 0);
}

struct dp_query_evidence dp_query_evidence_of(const struct dp_query_process *p, const struct dp_query_curve *c,
                                              double all_growth)
{
    struct dp_query_evidence e = {.verdict = DP_QUERY_STEADY, .pace = -1};
    e.n_sampled = sum(c->allocated_samples, 0, p->n_points ? p->n_points : 1);
    if (p->n_points < DP_QUERY_TICKS_NEEDED) {
        left_at_end(p, c, &e);
        return e;
    }
    size_t last = p->n_points - 1, half = last / 2, first = warm(p);
    e.bytes_per_hour = dp_query_slope_of(p->times_ns, c->bytes, half, last + 1).per_hour;
    e.freed = e.n_sampled > 0 ? clamp(1 - c->samples[last] / e.n_sampled) : 0;
    e.since_ns = since(p, c);
    count_steps(c, first, last, &e);
    if (doubles(p, c, all_growth, &e))
        return e;
    double growth = dp_query_evidence_growth(p, c);
    if (growth <= 0 || e.bytes_per_hour <= 0) {
        bool none_came = sum(c->allocated_samples, half + 1, last + 1) < 0.5;
        e.verdict = c->samples[half] > 0 && none_came ? DP_QUERY_ONCE : DP_QUERY_STEADY;
        return e;
    }
    e.chance = clamp(chance(p, c, first, last) * fmax(all_growth / growth, 1));
    double spread = clamp((1 - largest_step(c, first, last)) / (1 - STEP_SHARE));
    double lasting = goes_on(p, c, first, &e.pace), beyond = beyond_load(p, c, &e.load);
    e.confidence = (1 - e.chance) * spread * lasting * clamp(beyond);
    e.verdict = e.confidence >= 0.5 ? DP_QUERY_GROWING : lasting < 0.5 ? DP_QUERY_FILLED : DP_QUERY_STEADY;
    return e;
}
