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
 *     is above 0 as often as below 0. With z = D / sqrt(sum of squares), P(growth >= D) <= exp(-z^2 / 2), whatever the
 *     distribution of the differences (B. Efron 1969, Student's t-Test Under Symmetry Conditions), and at most 3.178
 * times the tail of the normal distribution (V. Bentkus, D. Dzindzalieta 2015, A Tight Gaussian Bound for Weighted Sums
 * of Rademacher Random Variables); n steps up and none down have 2^-n. The sum of squares estimates the variance of D:
 * of sampling (each event adds w^2, the variance of a Poisson sum) and of the program. Blocks that are allocated and
 *     freed within a tick add nothing.
 *     That variance is too large if blocks turn over fast. Then the growth along the line that fits best is compared
 * with its own variance. As many blocks must have been freed as were in use, and the trend (Kendall's tau, M. Kendall
 * 1938, A New Measure of Rank Correlation) must agree. A program has many stacks, and each has its chance to look like
 * a leak. So the probability is divided by the stack's share of all growth of the process (a weighted Bonferroni
 * correction): the stack with most of the growth needs less proof than one of a thousand small ones. Memory that turns
 * over has a smaller weight (TURNOVER_LESS).
 *  2. A step. One step, or one short phase, is a load that rose or a table that was built: its share of the growth must
 * be small.
 *  3. An end. query/lasting.c compares models of growth that goes on with models of growth that has ended.
 *  4. Load. By Little's law (J. Little 1961, A Proof for the Queuing Formula L = lambda W) the memory in use is
 *     the rate of allocation times the mean lifetime. If a stack allocates more bytes in the second half than in the
 *     first, its memory in use may grow by the same factor. Both its blocks and its sampled blocks must have become
 * more: a buffer that is grown again and again allocates more bytes only because it is larger, and a sample of a small
 * size counts as thousands of blocks. The ratio of the two Poisson counts has a variance of 1/a + 1/b on a log scale,
 * and is shrunk towards no change, as most loads vary little (LOAD_SPREAD). Memory that is never freed has no mean
 * lifetime. So the probability that load explains the growth is multiplied by the number of blocks freed per block in
 * use, at most by 1.
 *
 * A buffer that doubles when it is full (a vector, a string, a hash's buckets) grows in steps ever farther apart,
 * although its content grows steadily. At each step the size of the content is known: the buffer was full. So the pace
 * of the content is known, and the time when the buffer will be full next. It counts as growing until twice that time.
 * Two steps are enough if each is by the factor of 2.
 *
 * If a process has too few ticks, only its end can be used: memory that was allocated repeatedly, almost never freed,
 * and is in use at the end was probably leaked. If f of n blocks were freed, the chance that the next one is freed is
 * (f + 1) / (n + 2) by Laplace's rule of succession, which Scalene uses for its leak score as well.
 */
#include "query/evidence.h"

#include "query/lasting.h"
#include "query/slope.h"

#include <math.h>

enum {
    MANY_LEFT = 8,    /* sampled blocks in use at the end of a program, almost none freed: too many for a table */
    FEWEST_STEPS = 3, /* of a buffer that doubles */
    PHASES = 7,       /* growth within one of so many parts of the time is a step */
};
#define STEP_SHARE    0.5   /* of the growth in one tick: up to this share it may be a trend */
#define SIGNS_BOUND   3.178 /* of the tail of the normal distribution */
#define LOAD_SPREAD   0.3   /* standard deviation of the logarithm of how a load changes */
#define TURNOVER_LESS 0.8   /* by this share less weight has growth of memory that is all freed again */
#define STEP          1.3   /* factor of a step of a buffer that doubles */

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

/* ---- chance, and a step ----------------------------------------------------------------------------------------- */

/* The largest share of a step, or of a short phase, in the growth between two points. */
static double largest_step(const struct dp_query_curve *c, size_t first, size_t last)
{
    double growth = c->bytes[last] - c->bytes[first], largest = 0;
    size_t width = (last - first) / PHASES > 1 ? (last - first) / PHASES : 1;
    for (size_t i = first; i + width <= last; i++)
        largest = fmax(largest, c->bytes[i + width] - c->bytes[i]);
    return growth > 0 ? largest / growth : 1;
}

/* The bound of P(growth >= D) for differences with random signs. */
static double by_signs(const struct dp_query_curve *c, size_t first, size_t last)
{
    double growth = c->bytes[last] - c->bytes[first], walk = dp_query_sum_of_squares(c->bytes, first, last, 0);
    double z = walk > 0 ? growth / sqrt(walk) : 0;
    size_t n_up = 0, n_down = 0;
    for (size_t i = first; i < last; i++) {
        n_up += c->bytes[i + 1] > c->bytes[i];
        n_down += c->bytes[i + 1] < c->bytes[i];
    }
    double all_up = n_down ? 1 : exp2(-(double)n_up);
    return fmin(all_up, fmin(exp(-z * z / 2), SIGNS_BOUND * probability(-z)));
}

/* The probability that a stack without a leak grows as much, before the correction for many stacks. */
static double chance(const struct dp_query_process *p, const struct dp_query_curve *c, size_t first, size_t last)
{
    double fitted = dp_query_fitted_growth(p, c->bytes, first, last);
    double variance = dp_query_line_variance(p, c, first, last);
    double by_line = fitted > 0 && variance > 0 ? exp(-fitted * fitted / variance / 2) : 1;
    double trend = clamp((dp_query_slope_of(p->times_ns, c->bytes, first, last + 1).steadiness - 0.2) / 0.4);
    double turned_over = clamp(dp_query_freed(c, first, last) / fmax(c->samples[last], 1));
    return fmin(by_signs(c, first, last), 1 - trend * turned_over * (1 - by_line));
}

/* ---- load ------------------------------------------------------------------------------------------------------- */

/* The probability that there is growth which a higher load does not explain; *share of the growth that it explains. */
static double beyond_load(const struct dp_query_process *p, const struct dp_query_curve *c, double *share)
{
    size_t last = p->n_points - 1, half = last / 2;
    double time = (double)(p->times_ns[half] - p->times_ns[0]) / (double)(p->times_ns[last] - p->times_ns[half]);
    double n_before = sum(c->allocated_samples, 1, half + 1), n_after = sum(c->allocated_samples, half + 1, last + 1);
    double by_blocks = sum(c->allocated_objects, half + 1, last + 1) / sum(c->allocated_objects, 1, half + 1);
    double rise = fmin(n_after / n_before, by_blocks) * time; /* NaN or infinite: nothing was allocated before */
    double growth = c->bytes[last] - c->bytes[half];
    *share = 0;
    if (!(rise > 1) || isinf(rise) || growth <= 0)
        return 1;
    double error = 1 / (n_before + 0.5) + 1 / (n_after + 0.5), prior = LOAD_SPREAD * LOAD_SPREAD;
    double change = log(rise) * prior / (prior + error);
    double explained = c->bytes[half] * expm1(change);
    double deviation = c->bytes[half] * exp(change) * sqrt(prior * error / (prior + error));
    double noise = dp_query_pace_of(p, c, half, last).variance;
    *share = clamp(explained / growth);
    /* where nothing is freed, no lifetime is known */
    double turned_over = clamp(dp_query_freed(c, half, last) / fmax(c->samples[half], 1));
    return 1 - turned_over * 2 * probability((explained - growth) / sqrt(fmax(deviation * deviation + noise, 1)));
}

/* ---- buffers that double ---------------------------------------------------------------------------------------- */

/* Whether the curve is flat between steps of at least STEP; then *e has the verdict. */
static bool doubles(const struct dp_query_process *p, const struct dp_query_curve *c, double all_growth,
                    struct dp_query_evidence *e)
{
    size_t last = p->n_points - 1, at[DP_QUERY_POINTS], n = 0;
    double steps = 0, other = 0;
    bool is_exact = true; /* each step is by the factor of 2 */
    for (size_t i = 1; i <= last; i++) {
        double step = c->bytes[i] - c->bytes[i - 1];
        if (c->bytes[i - 1] > 0 && c->bytes[i] >= STEP * c->bytes[i - 1]) {
            at[n++] = i;
            steps += step;
            is_exact &= fabs(c->bytes[i] / c->bytes[i - 1] - 2) < 0.02;
        } else if (n) {
            other += fabs(step);
        }
    }
    if (n + is_exact < FEWEST_STEPS || other > steps / 10)
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
    e->chance = clamp(exp(-(double)(n + is_exact) / 2) / fmax(share, 1e-9));
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
    if (p->n_points < DP_QUERY_TICKS_NEEDED)
        return 0;
    double growth = fmax(c->bytes[last] - c->bytes[warm(p)], 0),
           allocated = sum(c->allocated_samples, warm(p) + 1, last + 1);
    double freed = allocated > 0 ? clamp(dp_query_freed(c, warm(p), last) / allocated) : 0;
    return growth * (1 - TURNOVER_LESS * freed);
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
    double lasting = dp_query_lasting(p, c, first, &e.pace), beyond = beyond_load(p, c, &e.load);
    e.confidence = (1 - e.chance) * spread * lasting * clamp(beyond);
    e.verdict = e.confidence >= 0.5 ? DP_QUERY_GROWING : lasting < 0.5 ? DP_QUERY_FILLED : DP_QUERY_STEADY;
    return e;
}
