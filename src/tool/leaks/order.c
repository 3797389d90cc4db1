/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/order.c - compares models of blocks that turn over, by which of them are freed when.
 *
 * Which blocks are sampled is chance, so the number of sampled blocks in a queue of constant length varies as Poisson
 * counts do: 25 by 5. But the sampled allocations are known. If blocks are freed in order, after the time L, those of
 * the last L are in use, and this number has no sampling error: where it fits, a small growth is seen, and a growth by
 * chance or by a higher load is told from a real one.
 *
 *  There is none: L is constant. That explains the start, in which the queue fills. Or growth has ended, not later than
 *  ENDED.
 *  It goes on: blocks are lost at a constant pace beside a constant L, DP_LEAKS_FEWEST at least; or L is a share of the
 *  time since the start of the program, as in a queue whose consumer is slower than its producer.
 *
 * L is constant in work, or by the clock, if blocks time out: half of each.
 *
 * The rival of an order are random lifetimes, which explain the allocations as well, so an order has no say where they
 * fit better: a constant L would take the delay with which memory follows a higher load for a loss. Their distribution
 * is that of W. Weibull (1951, A Statistical Distribution Function of Wide Applicability): many short ones and few long
 * ones, or without age, or nearly constant. What is in use follows from the allocations, with the variance of blocks
 * each of which is in use or not; what is left of a difference at the next point is its covariance by its variance.
 * Half of them with a loss beside them.
 *
 * L, the share, the mean lifetime, and the time of the end are averaged over; the pace is fitted, which costs sqrt(n)
 * (G. Schwarz 1978). Where L is constant, a few blocks may stay beside it. The difference between a curve and its order
 * is forgotten soon, at one of some rates: an order that drifts is none, and explains nothing.
 */
#include "tool/leaks/order.h"

#include <math.h>

#define POISSON  6.0  /* as in models.c */
#define LEAST    0.1  /* variance of a difference */
#define BLUR     0.25 /* of the allocations of a point: variance by what is freed a little earlier or later */
#define SHORTEST 0.02 /* L, of the time */
#define ENDED    0.75 /* of the time */
#define ORDER    0.5  /* prior weight of an order by the work, and of one by the clock */
#define LONGEST  16.0 /* lifetimes, of the scale of their distribution */

enum {
    LENGTHS = 180,
    COARSE = 24,
    SHARES = 24,
    TIMES = 6,
    DEATHS = 4,
    SHAPES = 3,
    SCALES = 32,
    PARTS = 256, /* of LONGEST */
    FEWEST = 8   /* allocations, or bursts of them, that have an order */
};

/* Shapes of the distribution of lifetimes. */
static const double shapes[SHAPES] = {0.6, 1, 2};

/* Rates at which a difference is forgotten; the last one: at once. */
static const double deaths[DEATHS] = {3, 10, 30, INFINITY};

/* How what is in use differs from what is expected. */
struct noise {
    double kept[DP_LEAKS_POINTS];     /* of the difference before; the first one has none before */
    double variance[DP_LEAKS_POINTS]; /* of what is new */
    double log_variance;              /* the sum of logarithms, in the unit of the other models */
};

struct order {
    const struct dp_leaks_window *w;
    const double *time;                /* of each point, by which blocks live: w->all_at or w->all_clock_at */
    double begin;                      /* the program's start, by it */
    double until[DP_LEAKS_POINTS + 1]; /* allocations until a point; the one before the first is the program's start */
    double mean;                       /* in use */
    double slack;                      /* variance of what is in use beside the order: what is allocated in a point */
    struct noise noise[DEATHS];
};

/* How many blocks had been allocated at a time. Between two points they come evenly. */
static double allocated_until(const struct order *o, double time)
{
    size_t low = 0, high = o->w->n_all; /* the first point that ends after it */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (time < o->time[middle])
            high = middle;
        else
            low = middle + 1;
    }
    double begin = low ? o->time[low - 1] : o->begin;
    if (low == o->w->n_all || time <= begin)
        return o->until[low];
    return o->until[low] + (o->until[low + 1] - o->until[low]) * (time - begin) / (o->time[low] - begin);
}

static void sum_noise(const struct order *o, struct noise *noise)
{
    noise->log_variance = 0;
    for (size_t i = 0; i < o->w->n; i++)
        noise->log_variance += log(noise->variance[i] / fmax(o->mean, 1));
}

/*
 * The likelihood of a curve that is `expected`; with `beside`, p times that in addition, at the best p. is_loss: p is
 * DP_LEAKS_FEWEST at least; else it is of either sign and little.
 */
static double log_of(const struct order *o, const double *expected, const double *beside, bool is_loss,
                     const struct noise *noise)
{
    const struct dp_leaks_window *w = o->w;
    double ll = 0, ly = 0, yy = 0, n = (double)w->n;
    for (size_t i = 0; i < w->n; i++) {
        double kept = noise->kept[i], weight = 1 / noise->variance[i];
        double y = w->in_use[i] - expected[i] - (i ? kept * (w->in_use[i - 1] - expected[i - 1]) : 0);
        double l = beside ? beside[i] - (i ? kept * beside[i - 1] : 0) : 0;
        ll += l * l * weight, ly += l * y * weight, yy += y * y * weight;
    }
    double ridge = is_loss ? 0 : 1 / o->slack, p = ll > 0 ? ly / (ll + ridge) : 0;
    double cost = is_loss ? 0.5 * log(n) : 0.5 * log((ll + ridge) / ridge);
    if (is_loss)
        p = fmax(p, DP_LEAKS_FEWEST);
    double rss = fmax(yy - 2 * p * ly + p * p * (ll + ridge), 0);
    return -0.5 * noise->log_variance - (POISSON + n) / 2 * log1p(rss / POISSON) - (beside ? cost : 0);
}

static void add_logarithm(double *log_sum, double x)
{
    double high = fmax(*log_sum, x);
    *log_sum = high > -INFINITY ? high + log(exp(*log_sum - high) + exp(x - high)) : high;
}

static void add(double *log_sum, const struct order *o, const double *expected, const double *beside, bool is_loss,
                double weight)
{
    for (size_t i = 0; i < DEATHS; i++)
        add_logarithm(log_sum, log_of(o, expected, beside, is_loss, &o->noise[i]) + log(weight / DEATHS));
}

/* Fills what is in use if blocks live for `length`, and at most for `share` of the time since the start until `end`. */
static void expect(const struct order *o, double length, double share, double end, double *expected)
{
    const struct dp_leaks_window *w = o->w;
    for (size_t i = 0; i < w->n; i++) {
        double time = o->time[w->first + i], limit = share * (fmin(time, end) - o->begin);
        expected[i] = allocated_until(o, time) - allocated_until(o, time - fmin(length, limit));
    }
}

/* Fills what is lost by a loss at a constant pace until `end`. */
static void lose(const struct order *o, double end, double *lost)
{
    for (size_t i = 0; i < o->w->n; i++)
        lost[i] = fmin(o->w->at[i], end) + o->w->start;
}

static double length_of(const struct order *o, int i, int n)
{
    return SHORTEST * pow((1 - o->begin) / SHORTEST, i / (double)(n - 1));
}

static void add_lengths(struct dp_leaks_order *sums, const struct order *o)
{
    double expected[DP_LEAKS_POINTS], lost[DP_LEAKS_POINTS], constant[DP_LEAKS_POINTS];
    for (size_t i = 0; i < o->w->n; i++)
        constant[i] = 1;
    for (int i = 0; i < LENGTHS; i++) {
        expect(o, length_of(o, i, LENGTHS), 1, 1, expected);
        add(&sums->constant, o, expected, NULL, false, ORDER * 0.25 / LENGTHS);
        add(&sums->constant, o, expected, constant, false, ORDER * 0.25 / LENGTHS);
        lose(o, 1, lost);
        add(&sums->goes_on, o, expected, lost, true, ORDER * 0.5 / LENGTHS);
    }
    for (int i = 0; i < COARSE; i++) {
        expect(o, length_of(o, i, COARSE), 1, 1, expected);
        for (int k = 0; k < TIMES; k++) {
            lose(o, ENDED * (k + 0.5) / TIMES, lost);
            add(&sums->none, o, expected, lost, true, ORDER * 0.25 / COARSE / TIMES);
        }
    }
}

static void add_shares(struct dp_leaks_order *sums, const struct order *o)
{
    double expected[DP_LEAKS_POINTS];
    for (int i = 0; i < SHARES; i++) {
        double share = pow(SHORTEST, 1 - (i + 0.5) / SHARES);
        expect(o, INFINITY, share, 1, expected);
        add(&sums->goes_on, o, expected, NULL, false, ORDER * 0.5 / SHARES);
        for (int k = 0; k < TIMES; k++) {
            expect(o, INFINITY, share, ENDED * (k + 0.5) / TIMES, expected);
            add(&sums->none, o, expected, NULL, false, ORDER * 0.25 / SHARES / TIMES);
        }
    }
}

/* ---- random lifetimes ------------------------------------------------------------------------------------------- */

/* The integral of exp(-x^shape) from 0 on, in steps of LONGEST / PARTS. */
static void fill_integral(double shape, double *integral)
{
    double step = LONGEST / PARTS;
    integral[0] = 0;
    for (int i = 0; i < PARTS; i++)
        integral[i + 1] = integral[i] + step * exp(-pow((i + 0.5) * step, shape));
}

static double integral_at(const double *integral, double x)
{
    double at = fmin(x * (PARTS / LONGEST), PARTS - 1e-6);
    int i = (int)at;
    return integral[i] + (at - i) * (integral[i + 1] - integral[i]);
}

/* Fills which share of the allocations of each point is in use at a time. */
static void fill_alive(const struct order *o, size_t point, const double *integral, double scale, double *alive)
{
    const struct dp_leaks_window *w = o->w;
    double now = o->time[w->first + point], begin = o->begin, before = integral_at(integral, (now - begin) / scale);
    for (size_t j = 0; j <= w->first + point; j++) {
        double end = fmax(o->time[j], begin + 1e-6), after = integral_at(integral, fmax(now - end, 0) / scale);
        alive[j] = fmin(scale * (before - after) / (end - begin), 1);
        begin = end, before = after;
    }
}

/* Fills what is in use if blocks live for times of that distribution, and how it varies. */
static void expect_lifetimes(const struct order *o, const double *integral, double scale, double *expected,
                             struct noise *noise)
{
    const struct dp_leaks_window *w = o->w;
    double alive[DP_LEAKS_POINTS], before[DP_LEAKS_POINTS], all_before = 0;
    for (size_t i = 0; i < w->n; i++) {
        double all = 0, both = 0;
        fill_alive(o, i, integral, scale, alive);
        expected[i] = 0;
        for (size_t j = 0; j <= w->first + i; j++) {
            double came = w->allocated[j];
            expected[i] += came * alive[j];
            all += came * alive[j] * (1 - alive[j]);
            both += i && j < w->first + i ? came * alive[j] * (1 - before[j]) : 0;
            before[j] = alive[j];
        }
        noise->kept[i] = i ? both / fmax(all_before, 1e-9) : 0;
        noise->variance[i] = fmax(all - noise->kept[i] * both, 0) + LEAST;
        all_before = all;
    }
    sum_noise(o, noise);
}

/* The same, of a loss beside lifetimes: which blocks are lost is chance, too. */
static double log_of_loss(const struct order *o, const double *expected, const double *lost, const struct noise *noise)
{
    double ll = 0, ly = 0;
    struct noise all = *noise;
    for (size_t i = 0; i < o->w->n; i++) {
        double kept = noise->kept[i];
        double y = o->w->in_use[i] - expected[i] - (i ? kept * (o->w->in_use[i - 1] - expected[i - 1]) : 0);
        double l = lost[i] - (i ? kept * lost[i - 1] : 0);
        ll += l * l / noise->variance[i], ly += l * y / noise->variance[i];
    }
    double p = fmax(ll > 0 ? ly / ll : 0, DP_LEAKS_FEWEST);
    for (size_t i = 0; i < o->w->n; i++)
        all.variance[i] += p * (lost[i] - (i ? lost[i - 1] : 0));
    sum_noise(o, &all);
    return log_of(o, expected, lost, true, &all);
}

static void add_lifetimes(struct dp_leaks_order *sums, const struct order *o)
{
    double expected[DP_LEAKS_POINTS], lost[DP_LEAKS_POINTS], integral[PARTS + 1];
    const double weight = log(0.5 / SHAPES / SCALES);
    struct noise noise;
    lose(o, 1, lost);
    for (int k = 0; k < SHAPES; k++) {
        fill_integral(shapes[k], integral);
        for (int i = 0; i < SCALES; i++) {
            expect_lifetimes(o, integral, length_of(o, i, SCALES), expected, &noise);
            add_logarithm(&sums->random_none, log_of(o, expected, NULL, false, &noise) + weight);
            add_logarithm(&sums->random_goes_on, log_of_loss(o, expected, lost, &noise) + weight);
        }
    }
}

struct dp_leaks_order dp_leaks_order_compare(const struct dp_leaks_window *w)
{
    struct dp_leaks_order sums = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    struct order o = {.w = w};
    for (size_t i = 0; i < w->n_all; i++)
        o.until[i + 1] = o.until[i] + w->allocated[i];
    for (size_t i = 0; i < w->n; i++) {
        o.mean += w->in_use[i] / (double)w->n;
        for (size_t k = 0; k < DEATHS; k++) {
            double kept = i ? exp(-deaths[k] * fmax(w->at[i] - w->at[i - 1], 1e-9)) : 0;
            double came = w->allocated[w->first + i];
            o.noise[k].kept[i] = kept;
            o.noise[k].variance[i] = BLUR * came * (1 - kept * kept) + kept * kept * came / 2 + LEAST;
        }
    }
    for (size_t k = 0; k < DEATHS; k++)
        sum_noise(&o, &o.noise[k]);
    double squares = 0; /* blocks that come together are one */
    for (size_t i = 0; i < w->n_all; i++)
        squares += w->allocated[i] * w->allocated[i];
    o.slack = pow(fmax(o.until[w->n_all] / (double)w->n_all, 1), 2);
    if (pow(o.until[w->n_all], 2) >= FEWEST * squares) {
        for (int by_clock = 0; by_clock < 2; by_clock++) {
            o.time = by_clock ? w->all_clock_at : w->all_at;
            o.begin = by_clock ? -w->clock_start : -w->start;
            add_lengths(&sums, &o);
            add_shares(&sums, &o);
            add_lifetimes(&sums, &o);
        }
        add_logarithm(&sums.none, sums.constant);
    }
    return sums;
}
