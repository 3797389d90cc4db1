/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/order.c - compares models in which the oldest block is freed first.
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
 * L, the share and the time of the end are averaged over; the pace is fitted, which costs sqrt(n) (G. Schwarz 1978).
 * Where L is constant, a few blocks may stay beside it. The difference between a curve and its model is forgotten soon,
 * at one of some rates: an order that drifts is none, and explains nothing.
 */
#include "tool/leaks/order.h"

#include <math.h>

#define POISSON  6.0  /* as in models.c */
#define LEAST    0.1  /* variance of a difference */
#define BLUR     0.25 /* of the allocations of a point: variance by what is freed a little earlier or later */
#define SHORTEST 0.02 /* L, of the time */
#define ENDED    0.75 /* of the time */

enum {
    LENGTHS = 180,
    COARSE = 24,
    SHARES = 24,
    TIMES = 6,
    DEATHS = 4,
    FEWEST = 8 /* allocations, or bursts of them, that have an order */
};

/* Rates at which a difference is forgotten; the last one: at once. */
static const double deaths[DEATHS] = {3, 10, 30, INFINITY};

struct order {
    const struct dp_leaks_window *w;
    double until[DP_LEAKS_POINTS + 1]; /* allocations until a point; the one before the first is the program's start */
    double mean;                       /* in use */
    double slack;                      /* variance of what is in use beside the order: what is allocated in a point */
    double kept[DEATHS][DP_LEAKS_POINTS];
};

/* How many blocks had been allocated at a time. Between two points they come evenly. */
static double allocated_until(const struct order *o, double time)
{
    const struct dp_leaks_window *w = o->w;
    double begin = -w->start;
    for (size_t i = 0; i < w->n_all; i++) {
        double end = w->all_at[i];
        if (time < end)
            return time <= begin ? o->until[i]
                                 : o->until[i] + (o->until[i + 1] - o->until[i]) * (time - begin) / (end - begin);
        begin = end;
    }
    return o->until[w->n_all];
}

/*
 * The likelihood of a curve that is `expected`; with `beside`, p times that in addition, at the best p. is_loss: p is
 * DP_LEAKS_FEWEST at least; else it is of either sign and little.
 */
static double log_of(const struct order *o, const double *expected, const double *beside, bool is_loss, size_t death)
{
    const struct dp_leaks_window *w = o->w;
    double ll = 0, ly = 0, yy = 0, log_variance = 0, n = (double)w->n;
    for (size_t i = 0; i < w->n; i++) {
        double kept = o->kept[death][i], came = w->allocated[w->first + i];
        double variance = BLUR * came * (1 - kept * kept) + kept * kept * came / 2 + LEAST;
        double y = w->in_use[i] - expected[i] - (i ? kept * (w->in_use[i - 1] - expected[i - 1]) : 0);
        double l = beside ? beside[i] - (i ? kept * beside[i - 1] : 0) : 0;
        ll += l * l / variance, ly += l * y / variance, yy += y * y / variance;
        log_variance += log(variance / fmax(o->mean, 1));
    }
    double ridge = is_loss ? 0 : 1 / o->slack, p = ll > 0 ? ly / (ll + ridge) : 0;
    double cost = is_loss ? 0.5 * log(n) : 0.5 * log((ll + ridge) / ridge);
    if (is_loss)
        p = fmax(p, DP_LEAKS_FEWEST);
    double rss = fmax(yy - 2 * p * ly + p * p * (ll + ridge), 0);
    return -0.5 * log_variance - (POISSON + n) / 2 * log1p(rss / POISSON) - (beside ? cost : 0);
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
        add_logarithm(log_sum, log_of(o, expected, beside, is_loss, i) + log(weight / DEATHS));
}

/* Fills what is in use if blocks live for `length`, and at most for `share` of the time since the start until `end`. */
static void expect(const struct order *o, double length, double share, double end, double *expected)
{
    const struct dp_leaks_window *w = o->w;
    for (size_t i = 0; i < w->n; i++) {
        double time = w->at[i], limit = share * (fmin(time, end) + w->start);
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
    return SHORTEST * pow((1 + o->w->start) / SHORTEST, i / (double)(n - 1));
}

static void add_lengths(struct dp_leaks_order *sums, const struct order *o)
{
    double expected[DP_LEAKS_POINTS], lost[DP_LEAKS_POINTS], constant[DP_LEAKS_POINTS];
    for (size_t i = 0; i < o->w->n; i++)
        constant[i] = 1;
    for (int i = 0; i < LENGTHS; i++) {
        expect(o, length_of(o, i, LENGTHS), 1, 1, expected);
        add(&sums->constant, o, expected, NULL, false, 0.25 / LENGTHS);
        add(&sums->constant, o, expected, constant, false, 0.25 / LENGTHS);
        lose(o, 1, lost);
        add(&sums->goes_on, o, expected, lost, true, 0.5 / LENGTHS);
    }
    for (int i = 0; i < COARSE; i++) {
        expect(o, length_of(o, i, COARSE), 1, 1, expected);
        for (int k = 0; k < TIMES; k++) {
            lose(o, ENDED * (k + 0.5) / TIMES, lost);
            add(&sums->none, o, expected, lost, true, 0.25 / COARSE / TIMES);
        }
    }
}

static void add_shares(struct dp_leaks_order *sums, const struct order *o)
{
    double expected[DP_LEAKS_POINTS];
    for (int i = 0; i < SHARES; i++) {
        double share = pow(SHORTEST, 1 - (i + 0.5) / SHARES);
        expect(o, INFINITY, share, 1, expected);
        add(&sums->goes_on, o, expected, NULL, false, 0.5 / SHARES);
        for (int k = 0; k < TIMES; k++) {
            expect(o, INFINITY, share, ENDED * (k + 0.5) / TIMES, expected);
            add(&sums->none, o, expected, NULL, false, 0.25 / SHARES / TIMES);
        }
    }
}

struct dp_leaks_order dp_leaks_order_compare(const struct dp_leaks_window *w)
{
    struct dp_leaks_order sums = {-INFINITY, -INFINITY, -INFINITY};
    struct order o = {.w = w};
    for (size_t i = 0; i < w->n_all; i++)
        o.until[i + 1] = o.until[i] + w->allocated[i];
    for (size_t i = 0; i < w->n; i++) {
        o.mean += w->in_use[i] / (double)w->n;
        for (size_t k = 0; k < DEATHS && i; k++)
            o.kept[k][i] = exp(-deaths[k] * fmax(w->at[i] - w->at[i - 1], 1e-9));
    }
    double squares = 0; /* blocks that come together are one */
    for (size_t i = 0; i < w->n_all; i++)
        squares += w->allocated[i] * w->allocated[i];
    o.slack = pow(fmax(o.until[w->n_all] / (double)w->n_all, 1), 2);
    if (pow(o.until[w->n_all], 2) >= FEWEST * squares) {
        add_lengths(&sums, &o);
        add_shares(&sums, &o);
        add_logarithm(&sums.none, sums.constant);
    }
    return sums;
}
