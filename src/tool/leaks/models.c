/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/models.c - compares models of growth that goes on with models of growth that has ended, or never was.
 *
 * A model is the expected number of sampled blocks in use over the time, which is scaled to 0..1.
 *
 * It goes on: at a constant rate; or from an unknown time on at half, or twice the rate; or it begins at that time.
 *
 * It has ended: at an unknown time, not later than LATEST, the rate becomes 0 or at most RESIDUE of what it was, so
 * that at most RESIDUE of the growth before comes after it; or all growth lies in one short PHASE; or it lies in a WIDE
 * one, after which at least as much time passed; or it decays as exp(-k time), as in a table of which ever less is
 * missing.
 *
 * It never was: the level is steady, or follows the load.
 *
 * Blocks that turn over may also be freed in order, which tool/leaks/order.c looks at. Both opinions are pooled.
 *
 * Unknown times are averaged over (a marginal likelihood), so a model pays for what it leaves open; the quotient of two
 * averages is the Bayes factor (H. Jeffreys 1939, Theory of Probability).
 *
 * Blocks that are kept are events at known times: the likelihood is the product of their densities. With one end at t
 * it is 1 / t for each event: five blocks say little about the last fifth of the time, fifty much. Events that come in
 * bursts are fewer than they seem: logarithms are divided by the dispersion (R. Wedderburn 1974, Quasi-Likelihood
 * Functions), measured between neighbours (J. von Neumann 1941), so that an end does not count as one. The start of the
 * program may have its own rate, so it counts half.
 *
 * Blocks that turn over are a birth and death process. If they are freed at the rate d, the value after a time s is
 * exp(-d s) of the value before, and what came since; its variance is level (1 - exp(-2 d s)) + growth (J. Kingman
 * 1969, Markov Population Processes). Rates d from 0 (only sums of steps are known) to 30 are averaged over. Level and
 * slope are fitted by least squares; a fitted slope costs sqrt(n) (G. Schwarz 1978, Estimating the Dimension of a
 * Model). Programs vary more than Poisson counts do, by an unknown factor; averaged over it, with the belief that it is
 * 1 worth POISSON points, the normal density becomes Student's.
 */
#include "tool/leaks/models.h"

#include "tool/leaks/order.h"

#include <math.h>

#define RESIDUE   0.15 /* of the pace, and of the growth, before: growth that is ending */
#define LATEST    0.75 /* of the time: growth that lasted longer has not ended */
#define SLOWEST   2.4  /* decay: at the end a tenth of the pace at the beginning */
#define WIDE      0.25 /* of the time: growth that lasted so long, and that has not come for as long since, has ended */
#define PHASE     0.15 /* of the time: growth within so short a part is a step */
#define LEAST     0.05 /* variance of a value that does not change */
#define LIFETIMES 0.5  /* weight of what random lifetimes say */
#define BY_CHANCE 1.5  /* logarithm of odds of a loss beside random lifetimes: up to it, they say nothing */
#define POISSON   6.0  /* degrees of freedom of the belief that a curve varies as Poisson counts do */

enum { GRID = 16 };

static double sum(const double *values, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum;
}

/* Growth: its rate is `before` until `begin`, 1 until `end`, and `after` from then on; decay > 0: it decays so fast. */
struct growth {
    double before, begin, end, after, decay;
};

/* The growth from time 0 to t. */
static double grown(const struct growth *g, double t)
{
    if (g->decay > 0)
        return -expm1(-g->decay * t) / g->decay;
    double early = fmin(t, g->begin), middle = fmax(fmin(t, g->end) - g->begin, 0),
           late = fmax(t - fmax(g->end, g->begin), 0);
    return g->before * early + middle + g->after * late;
}

/* ---- blocks that are kept --------------------------------------------------------------------------------------- */

struct events {
    const struct dp_leaks_window *w;
    double at[DP_LEAKS_POINTS], all, dispersion;
};

/* The variance of sums over `width` points between neighbours, by their mean. */
static double dispersion_of(const struct events *e, size_t width)
{
    size_t n_all = e->w->n - 1, n = n_all / width;
    double squares = 0, before = 0, mean = e->all * (double)width / (double)n_all;
    for (size_t i = 0; i < n; i++) {
        double now = sum(e->at + n_all - (n - i) * width, width);
        squares += i ? (now - before) * (now - before) : 0;
        before = now;
    }
    return n > 1 && mean > 0 ? squares / (2 * (double)(n - 1) * mean) / (1 + sqrt(3 / (double)n)) : 1;
}

static double start_likelihood(const struct events *e, double q)
{
    double n1 = e->w->in_use[0] / e->dispersion, n2 = e->all / e->dispersion, f = (n1 + 1) / (n1 + n2 + 2);
    double log_ratio = n1 * log(fmax(q, 1e-9) / f) + n2 * log(fmax(1 - q, 1e-9) / (1 - f));
    return 0.5 + 0.5 * exp(log_ratio) * sqrt((n1 + n2 + 2) / (2 * M_PI * f * (1 - f)));
}

static double log_of_events(const struct events *e, const struct growth *g)
{
    const struct dp_leaks_window *w = e->w;
    double log_likelihood = 0, whole = fmax(grown(g, 1), 1e-9);
    for (size_t i = 0; i + 1 < w->n; i++) {
        double width = fmax(w->at[i + 1] - w->at[i], 1e-9),
               share = (grown(g, w->at[i + 1]) - grown(g, w->at[i])) / whole;
        if (e->at[i] > 0)
            log_likelihood += e->at[i] * log(fmax(share / width, 1e-9));
    }
    double before = g->decay > 0 ? expm1(g->decay * fmin(w->start, 1)) / g->decay : g->before * w->start;
    return log_likelihood / e->dispersion + log(start_likelihood(e, before / (before + whole)));
}

/* ---- blocks that turn over -------------------------------------------------------------------------------------- */

enum shape { FLAT, RISING, PROPORTIONAL };

/*
 * The likelihood of a mean that is a, a + b shape with b > 0, or b shape, at the best a and b. Blocks are freed at the
 * rate `death`: each value is what was kept of the value before, and what came since. In the unit of e.
 */
static double log_of_level(const struct dp_leaks_window *w, const double *shape, enum shape form, double death)
{
    double aa = 0, ab = 0, bb = 0, ay = 0, by = 0, yy = 0, log_variance = 0;
    double growth = fmax(w->in_use[w->n - 1] - w->in_use[0], 0), mean = sum(w->in_use, w->n) / (double)w->n;
    for (size_t i = 0; i < w->n; i++) {
        double step = i ? w->at[i] - w->at[i - 1] : 0, kept = i ? exp(-death * step) : 0;
        size_t low = i > 1 ? i - 2 : 0, high = i + 3 < w->n ? i + 3 : w->n;
        double level = sum(w->in_use + low, high - low) / (double)(high - low);
        double variance = level * (1 - kept * kept) + kept * kept * growth * step + LEAST;
        double a = 1 - kept, b = shape[i] - (i ? kept * shape[i - 1] : 0),
               y = w->in_use[i] - (i ? kept * w->in_use[i - 1] : 0);
        aa += a * a / variance, ab += a * b / variance, bb += b * b / variance;
        ay += a * y / variance, by += b * y / variance, yy += y * y / variance;
        log_variance += log(variance / fmax(mean, 1));
    }
    double determinant = aa * bb - ab * ab, n = (double)w->n;
    double slope = determinant > 1e-9 * aa * bb ? (aa * by - ab * ay) / determinant : 0;
    double rss = form == PROPORTIONAL ? yy - by * by / fmax(bb, 1e-12) : yy - ay * ay / aa;
    if (form == RISING && slope > 0)
        rss -= slope * slope * determinant / aa;
    double log_likelihood = -0.5 * log_variance - (POISSON + n) / 2 * log1p(fmax(rss, 0) / POISSON);
    return log_likelihood - (form == RISING ? 0.5 * log(n) : 0);
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

/* The sum of likelihoods, as a logarithm. */
static void add(double *log_sum, double log_likelihood, double weight)
{
    double x = log_likelihood + log(weight), high = fmax(*log_sum, x);
    *log_sum = high + log(exp(*log_sum - high) + exp(x - high));
}

/*
 * Pools the opinions of both families of models: of each likelihood the geometric mean (C. Genest, J. Zidek 1986,
 * Combining Probability Distributions), so that none is certain alone. Those that know the allocations say only whether
 * growth goes on: a queue of constant length that fills is growth that has ended. A family that explains the curve
 * badly has no say. For a leak, an order has one, by its share beside random lifetimes. These, where they explain the
 * curve best, tell a loss only from a level that is steady or follows the load: that memory fills is seen by the levels
 * alone. Whether blocks live for a constant time that explains the curve as well as the other models do.
 */
static bool pool(const struct dp_leaks_order *order, double *goes_on, double *ended, double *steady, double *by_load)
{
    double level = -INFINITY, in_order = -INFINITY, random = -INFINITY, on = -INFINITY, none = -INFINITY;
    if (order->none == -INFINITY)
        return false;
    add(&level, *goes_on, 0.25), add(&level, *ended, 0.25), add(&level, *steady, 0.25), add(&level, *by_load, 0.25);
    add(&in_order, order->goes_on, 0.5), add(&in_order, order->none, 0.5);
    add(&random, order->random_goes_on, 0.5), add(&random, order->random_none, 0.5);
    add(&on, order->goes_on, 0.5), add(&on, order->random_goes_on, 0.5);
    add(&none, order->none, 0.5), add(&none, order->random_none, 0.5);
    double all = -INFINITY;
    add(&all, on, 0.5), add(&all, none, 0.5);
    double say = 0.5 * fmin(1, exp(all - level)) / (on > none ? 1 + exp(random - in_order) : 1);
    *goes_on = (1 - say) * (*goes_on - level) + say * (on - all);
    *ended = (1 - say) * (*ended - level) + say * (none - all);
    *steady = (1 - say) * (*steady - level) + say * (none - all);
    *by_load = (1 - say) * (*by_load - level) + say * (none - all);
    double by_lifetimes = order->random_goes_on - order->random_none - BY_CHANCE;
    say = LIFETIMES / (1 + exp(fmax(level, in_order) - random));
    *steady -= say * fmax(*steady - *goes_on + by_lifetimes, 0) * (by_lifetimes > 0);
    *by_load -= say * fmax(*by_load - *goes_on + by_lifetimes, 0) * (by_lifetimes > 0);
    return order->constant >= fmax(fmax(level, random), order->none - M_LN2);
}

static void add_growth(double *log_sum, const struct dp_leaks_window *w, const struct events *e, struct growth g,
                       double weight)
{
    static const double deaths[] = {0, 1, 3, 10, 30};
    double shape[DP_LEAKS_POINTS];
    if (w->is_kept) {
        add(log_sum, log_of_events(e, &g), weight);
        return;
    }
    for (size_t i = 0; i < w->n; i++)
        shape[i] = grown(&g, w->at[i]);
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++)
        add(log_sum, log_of_level(w, shape, RISING, deaths[i]), weight / 5);
}

static void add_goes_on(double *log_sum, const struct dp_leaks_window *w, const struct events *e)
{
    add_growth(log_sum, w, e, (struct growth){.end = 1}, 0.5);
    for (int i = 0; i < GRID; i++) {
        double t = LATEST * (i + 0.5) / GRID;
        add_growth(log_sum, w, e, (struct growth){.end = t, .after = 0.5}, 0.2 / GRID);
        add_growth(log_sum, w, e, (struct growth){.end = t, .after = 2}, 0.2 / GRID);
        add_growth(log_sum, w, e, (struct growth){.begin = t, .end = 1}, 0.1 / GRID);
    }
}

static void add_ended(double *log_sum, const struct dp_leaks_window *w, const struct events *e)
{
    double steps = w->is_kept ? 0.1 : 0.3;
    for (int i = 0; i < GRID; i++) {
        double t = LATEST * (i + 0.5) / GRID, begin = (1 - PHASE) * i / (GRID - 1);
        double width = w->is_kept || i % 2 ? PHASE : 0.02;
        add_growth(log_sum, w, e, (struct growth){.end = t}, 0.25 / GRID);
        add_growth(log_sum, w, e, (struct growth){.end = t, .after = RESIDUE * fmin(1, t / (1 - t))}, 0.25 / GRID);
        add_growth(log_sum, w, e, (struct growth){.begin = begin, .end = begin + width}, steps / GRID);
        double from = (1 - 2 * WIDE) * i / (GRID - 1);
        if (w->is_kept) /* it may be later than LATEST, as its begin is seen, too */
            add_growth(log_sum, w, e, (struct growth){.begin = from, .end = from + WIDE}, steps / GRID);
    }
    for (double k = SLOWEST; k <= 5 * SLOWEST; k *= 2)
        add_growth(log_sum, w, e, (struct growth){.end = 1, .decay = k}, (0.5 - steps) / 3);
}

struct dp_leaks_likelihoods dp_leaks_compare(const struct dp_leaks_window *w)
{
    static const double deaths[] = {0, 1, 3, 10, 30};
    double goes_on = -INFINITY, ended = -INFINITY, steady = -INFINITY, by_load = -INFINITY;
    struct events e = {.w = w, .dispersion = 1};
    bool has_order = false;
    for (size_t i = 0; i + 1 < w->n; i++)
        e.all += e.at[i] = fmax(w->in_use[i + 1] - w->in_use[i], 0);
    for (size_t width = 1; width <= 4; width *= 2)
        e.dispersion = fmax(e.dispersion, dispersion_of(&e, width));
    add_goes_on(&goes_on, w, &e);
    add_ended(&ended, w, &e);
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths && !w->is_kept; i++) {
        add(&steady, log_of_level(w, w->load, FLAT, deaths[i]), 0.2);
        double level[DP_LEAKS_POINTS]; /* follows the load by the lifetime of the blocks */
        for (size_t k = 0; k < w->n; k++) {
            double kept = k ? exp(-deaths[i] * (w->at[k] - w->at[k - 1])) : 0;
            level[k] = kept * (k ? level[k - 1] : 0) + (1 - kept) * w->load[k];
        }
        if (deaths[i] > 0)
            add(&by_load, log_of_level(w, level, PROPORTIONAL, deaths[i]), 0.25);
    }
    if (!w->is_kept) {
        struct dp_leaks_order order = dp_leaks_order_compare(w);
        has_order = pool(&order, &goes_on, &ended, &steady, &by_load);
    }
    double high = fmax(fmax(goes_on, ended), fmax(steady, by_load));
    return (struct dp_leaks_likelihoods){exp(goes_on - high), exp(ended - high), exp(steady - high),
                                         exp(by_load - high), has_order};
}
