/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/evidence.c - computes the probability that one stack leaks.
 *
 * A curve has the bytes in use of one stack at the end of each tick. A block is sampled with probability p and counts
 * as 1/p blocks; a sampled block is followed until its free, so a curve is exact for the sampled blocks, and only which
 * blocks are sampled is chance.
 *
 * Time is work, not the clock (tool/leaks/clock.c). The first quarter of it is left out, as all programs grow when they
 * start.
 *
 * Memory that is hardly freed grows for one of two reasons: a leak, or something that fills. tool/leaks/models.c
 * compares both. It takes more proof the fewer points it grew in: n steps up and none down have the probability 2^-n if
 * it does not grow. Memory that turns over may also grow by chance, or because the load rose: by Little's law (J.
 * Little 1961, A Proof for the Queuing Formula L = lambda W) memory in use is the rate of allocation times the mean
 * lifetime. These are models too; Bayes' theorem gives the probability of each from its prior odds. A program has many
 * stacks, and each has its chance to look like a leak. So the prior odds, or the 2^-n, are weighed by the share that
 * the stack has in the growth of the process (a weighted Bonferroni correction).
 *
 * The load is the number of blocks that were allocated or freed. Growth is the difference of both, so its sampling
 * error is not that of their sum. It is shrunk towards no change, as most loads vary little (LOAD_SPREAD). Blocks must
 * have become more; or they are few, and were made larger again and again, which counts as if each time one more was
 * kept (tool/leaks/buffers.c).
 *
 * A buffer that doubles when it is full (a vector, a string, a hash's buckets) grows in steps ever farther apart,
 * although its content grows steadily. At each step the size of the content is known: the buffer was full. So the pace
 * of the content is known, and the time when the buffer will be full next. It counts as growing until twice that time.
 *
 * That growth is probably chance or load does not show that there is no leak: of few blocks that turn over, a slow leak
 * looks like a queue whose length wanders. So growth is open until its end is seen: the level of the last quarter is
 * above that of the first one by more than chance, and what the last quarter added is not less, by more than chance,
 * than the same pace would have added. The second test has power only if there are blocks enough; without, all stays
 * open, unless the models say that growth hardly goes on. What leaked is in use ever after: where there are hardly any
 * blocks in use at some point of the last quarter, hardly any leaked.
 *
 * A cache nears its bound ever more slowly, so its end is not seen, but can be foreseen: memory that is kept and came
 * much more slowly in the second half of the time, the first quarter included, is likely to end, and may go on.
 *
 * The priors were chosen on the programs of tests/leaks.
 */
#include "tool/leaks/evidence.h"

#include "tool/leaks/buffers.h"
#include "tool/leaks/clock.h"
#include "tool/leaks/models.h"
#include "tool/leaks/slope.h"
#include "tool/leaks/teardown.h"

#include <math.h>

#define FEWEST_STEPS  3    /* of a buffer that doubles */
#define STEP          1.3  /* factor of a step of a buffer that doubles */
#define LOAD_SPREAD   0.3  /* standard deviation of the logarithm of how a load changes */
#define LOAD_EVENTS   100  /* a load is the mean of so many sampled events */
#define TURNOVER_LESS 0.8  /* by this share less weight has growth of memory that is all freed again */
#define FEW_FREED     0.1  /* of the growth: up to this share, blocks are kept */
#define PRIOR         1.8  /* odds that growth goes on, against that it has ended */
#define PRIOR_NONE    4.5  /* the same, that there is none, or that a higher load explains it, if blocks turn over */
#define START         0.05 /* of the time, at least the first point: the very start of a program */
#define EXPLAINED     0.5  /* of the growth: so much must the rise of a load explain, if it is the reason */
#define REPLACED      0.08 /* as OPEN, if the blocks of the plateau were replaced */
#define MANY          30   /* blocks of a plateau: beside fewer, a slow leak is not seen */
#define TURNS         4    /* times that the blocks of a plateau were replaced: its end is seen */
#define SLOWER        0.4  /* of the growth: with less in the second half of the time, it slows */
#define BY_CHANCE     0.01 /* probability of so little by chance: below it, it slows */
#define ENDING        0.5  /* of the probability that growth that slows goes on: so much is that it ends */
#define OPEN          0.02 /* probability that growth goes on: below it, its end is seen */
#define GREW          0.05 /* probability of a higher level by chance: below it, there was growth */
#define STOPPED       0.05 /* the same, of so little growth at an unchanged pace: below it, growth has ended */

static double clamp(double value)
{
    return value < 0 ? 0 : value > 1 ? 1 : value;
}

static double sum(const double *values, size_t first, size_t last)
{
    double sum = 0;
    for (size_t i = first; i < last; i++)
        sum += values[i];
    return sum;
}

static double freed(const struct dp_leaks_curve *c, size_t first, size_t last)
{
    return fmax(sum(c->allocated_samples, first + 1, last + 1) - (c->samples[last] - c->samples[first]), 0);
}

/* ---- load ------------------------------------------------------------------------------------------------------- */

/* Sampled blocks that were allocated or freed from one point to another. */
static double events(const struct dp_leaks_curve *c, size_t first, size_t last)
{
    return sum(c->allocated_samples, first + 1, last + 1) + freed(c, first, last);
}

static void fill_load(const struct dp_leaks_curve *c, const struct dp_leaks_clock *k, struct dp_leaks_window *w)
{
    size_t last = k->warm + w->n - 1;
    double whole = fmax(k->active_ns[last] - k->active_ns[0], 1), mean = events(c, 0, last) / whole;
    double blocks = sum(c->allocated_objects, 1, last + 1) / whole, all = 0;
    for (size_t i = 0; i < w->n; i++) {
        size_t high = k->warm + i, low = high ? high - 1 : 0;
        while (low && high - low < w->n / 4 && events(c, low, high) < LOAD_EVENTS)
            low--;
        double time = fmax(k->active_ns[high] - k->active_ns[low], 1), n = events(c, low, high);
        double change = fmin(n / time / mean, sum(c->allocated_objects, low + 1, high + 1) / time / blocks);
        double error = 1 / (n / 2 + 0.5), prior = LOAD_SPREAD * LOAD_SPREAD;
        w->load[i] = high > low && mean > 0 && change > 0 ? exp(log(change) * prior / (prior + error)) : 1;
        all += w->load[i];
    }
    for (size_t i = 0; i < w->n; i++)
        w->load[i] *= (double)w->n / all;
}

/*
 * Whether a higher load may explain the growth after the point `first`: by Little's law it raises the level by as much
 * as it rose itself. Both are compared between the first and the last third of the time.
 */
static bool load_rose(const struct dp_leaks_curve *c, const struct dp_leaks_clock *k, size_t first, size_t last)
{
    double time = k->active_ns[last] - k->active_ns[first];
    size_t low = first + 1, high = last - 1;
    while (low + 1 < high && 3 * (k->active_ns[low] - k->active_ns[first]) < time)
        low++;
    while (high > low && 3 * (k->active_ns[last] - k->active_ns[high]) < time)
        high--;
    double before = sum(c->samples, first, low + 1) / (double)(low + 1 - first),
           now = sum(c->samples, high, last + 1) / (double)(last + 1 - high);
    double rate_before = events(c, first, low) / fmax(k->active_ns[low] - k->active_ns[first], 1),
           rate_now = events(c, high, last) / fmax(k->active_ns[last] - k->active_ns[high], 1);
    return rate_now - rate_before >= EXPLAINED * rate_before * (now - before) / fmax(before, 1);
}

/* ---- buffers that double ---------------------------------------------------------------------------------------- */

/* Whether the curve, of `bytes`, is flat between steps of at least STEP; then *e has the verdict. */
static bool doubles(const struct dp_leaks_process *p, const struct dp_leaks_curve *c, const double *bytes,
                    const struct dp_leaks_clock *k, double all_growth, struct dp_leaks_evidence *e)
{
    size_t last = p->n_points - 1, at[DP_QUERY_POINTS], n = 0;
    double steps = 0, other = 0;
    bool is_exact = true; /* each step is by the factor of 2 */
    for (size_t i = 1; i <= last; i++) {
        double step = bytes[i] - bytes[i - 1];
        if (bytes[i - 1] > 0 && bytes[i] >= STEP * bytes[i - 1]) {
            at[n++] = i;
            steps += step;
            is_exact &= fabs(bytes[i] / bytes[i - 1] - 2) < 0.02;
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
    double time = (double)(k->end_ns[now] - k->end_ns[before]);
    double pace = (bytes[now - 1] - bytes[before - 1]) / time;
    double to_full = (bytes[now] - bytes[now - 1]) / pace, since = (double)(k->end_ns[last] - k->end_ns[now]);
    if (pace <= 0)
        return false;
    double is_due = clamp(2 - since / to_full), share = all_growth > 0 ? clamp(steps / all_growth) : 1;
    e->n_up = n;
    e->n_down = 0;
    e->chance = clamp(exp(-(double)(n + is_exact) / 2) / fmax(share, 1e-9));
    e->confidence = (1 - e->chance) * is_due;
    e->ended = (1 - e->chance) * (1 - is_due);
    e->kind = e->confidence >= 0.5 ? DP_LEAKS_DOUBLING : DP_LEAKS_FILLED;
    /* By the clock: it is filled between its steps, also in ticks that look idle as nothing is allocated in them. */
    e->bytes_per_hour = pace * time / (double)(p->times_ns[now] - p->times_ns[before]) * 3600e9;
    return true;
}

/* Whether it would have been full twice since it last became larger, at its pace since it was half as large. */
static bool is_overdue(const struct dp_leaks_curve *settled, const struct dp_leaks_clock *k, size_t last)
{
    const double *bytes = settled->bytes;
    size_t now = last;
    while (now > 1 && bytes[now] <= bytes[now - 1])
        now--;
    double largest = 0;
    size_t from = now;
    for (; from > 0 && bytes[from - 1] >= bytes[now] / 2; from--)
        largest = fmax(largest, bytes[from] - bytes[from - 1]);
    double pace = (bytes[now] - bytes[from]) / fmax((double)(k->end_ns[now] - k->end_ns[from]), 1);
    return (double)(k->end_ns[last] - k->end_ns[now]) * pace > 2 * largest;
}

/* ---- growth whose end is not seen ------------------------------------------------------------------------------- */

/* Sampled blocks in use in a part of the time: their mean, its variance, and blocks allocated or freed in it. */
struct level {
    double samples, bytes, variance, events;
};

/*
 * Of the points first..last. Values of blocks that live long are not independent of each other: there are as many
 * independent ones as the blocks were replaced, and at least one.
 */
static struct level level_of(const struct dp_leaks_curve *c, const struct dp_leaks_clock *k, size_t first, size_t last)
{
    struct level level = {0};
    double all = 0, squares = 0, allocated = sum(c->allocated_samples, first, last + 1);
    for (size_t i = first; i <= last; i++) {
        double time = (double)(k->end_ns[i] - (i ? k->end_ns[i - 1] : 0)) + 1;
        level.samples += time * c->samples[i];
        level.bytes += time * c->bytes[i];
        all += time;
        squares += time * time;
    }
    level.samples /= all;
    level.bytes /= all;
    double n = fmax(1, fmin(allocated / fmax(level.samples, 1), all * all / squares));
    level.variance = level.samples / n;
    level.events = allocated + fmax(allocated - c->samples[last] + (first ? c->samples[first - 1] : 0), 0);
    return level;
}

/* The probability that a normal variable is at least so many standard deviations above its mean. */
static double above(double difference, double variance)
{
    return 0.5 * erfc(difference / sqrt(2 * fmax(variance, 1e-9)));
}

/* The pace, in bytes an hour, of growth until the point `last`, at least 3, of which no end is seen; 0: there is none.
 */
static double open_pace(const struct dp_leaks_curve *c, const struct dp_leaks_clock *k, size_t last, double all_growth)
{
    size_t from[5] = {0, 0, 0, 0, last + 1};
    for (size_t q = 1; q < 4; q++) {
        from[q] = from[q - 1] + 1;
        while (from[q] + 3 < last + q && (double)k->end_ns[from[q] - 1] < (double)k->end_ns[last] * (double)q / 4)
            from[q]++;
    }
    struct level start = level_of(c, k, 0, from[1] - 1), before = level_of(c, k, from[2], from[3] - 1),
                 now = level_of(c, k, from[3], last);
    double growth = now.samples - start.samples, pace = growth / 3;
    double share = all_growth > 0 ? clamp((now.bytes - start.bytes) / all_growth) : 1;
    if (growth <= 0 ||
        above(growth, start.variance + fmax(now.variance, 1 / (double)(last + 2 - from[3]))) >= GREW * share)
        return 0;
    double variance = fmax(pace, fmin(before.variance + now.variance, (before.events + now.events) / 2));
    if (above(pace - (now.samples - before.samples), variance) < STOPPED)
        return 0;
    return (now.bytes - start.bytes) * 4 / 3 / fmax((double)k->end_ns[last], 1) * 3600e9;
}

/* ---- the probability -------------------------------------------------------------------------------------------- */

/* The time at which the growth began: 95 % of the growth comes after it. */
static int64_t since(const struct dp_leaks_process *p, const struct dp_leaks_curve *c)
{
    size_t last = p->n_points - 1, at = 0;
    double growth = c->bytes[last] - c->bytes[0];
    while (at + 1 < last && c->bytes[at + 1] - c->bytes[0] < growth / 20)
        at++;
    return at || c->bytes[0] > growth / 20 ? p->times_ns[at] : p->start_ns;
}

static double growth_since(const struct dp_leaks_curve *c, size_t first, size_t last)
{
    double growth = fmax(c->bytes[last] - c->bytes[first], 0),
           allocated = sum(c->allocated_samples, first + 1, last + 1);
    return growth * (1 - TURNOVER_LESS * (allocated > 0 ? clamp(freed(c, first, last) / allocated) : 0));
}

double dp_leaks_growth(const struct dp_leaks_process *p, const struct dp_leaks_curve *c)
{
    struct dp_leaks_process before = dp_leaks_teardown_skip(p, c->bytes, c->end_bytes);
    struct dp_leaks_clock k;
    struct dp_leaks_curve settled;
    dp_leaks_clock_of(&before, c, false, &k);
    if (dp_leaks_buffers_settle(&before, c, k.warm, &settled))
        c = &settled;
    return before.n_points < 2 ? 0 : growth_since(c, k.warm, before.n_points - 1);
}

static void count_steps(const struct dp_leaks_curve *c, size_t first, size_t last, struct dp_leaks_evidence *e)
{
    e->n_steps = last - first;
    for (size_t i = first; i < last; i++) {
        e->n_up += c->bytes[i + 1] > c->bytes[i];
        e->n_down += c->bytes[i + 1] < c->bytes[i];
    }
}

static void fill_window(const struct dp_leaks_curve *c, const struct dp_leaks_clock *k, size_t last,
                        struct dp_leaks_window *w)
{
    size_t first = k->warm;
    double weight = c->bytes[last] / fmax(c->samples[last], 1e-9),
           time = fmax((double)(k->end_ns[last] - k->end_ns[first]), 1);
    w->n = last - first + 1;
    w->start = (double)k->end_ns[first] / time;
    for (size_t i = 0; i < w->n; i++) {
        w->at[i] = (double)(k->end_ns[first + i] - k->end_ns[first]) / time;
        w->in_use[i] = c->bytes[first + i] / weight;
        w->load[i] = 1;
    }
    double active = fmax(k->active_ns[last] - k->active_ns[first], 1);
    w->clock_start = k->active_ns[first] / active;
    w->n_all = last + 1;
    w->first = first;
    for (size_t i = 0; i <= last; i++) {
        w->all_at[i] = ((double)k->end_ns[i] - (double)k->end_ns[first]) / time;
        w->all_clock_at[i] = (k->active_ns[i] - k->active_ns[first]) / active;
        w->allocated[i] = c->allocated_samples[i];
    }
    w->is_kept = freed(c, first, last) <= FEW_FREED * (c->samples[last] - c->samples[first]);
    if (!w->is_kept)
        fill_load(c, k, w);
}

/* Sampled blocks in use at a time. */
static double samples_at(const struct dp_leaks_curve *c, const struct dp_leaks_clock *k, double at_ns)
{
    size_t i = 0;
    while (i + 1 < DP_QUERY_POINTS && (double)k->end_ns[i] < at_ns)
        i++;
    double begin_ns = i ? (double)k->end_ns[i - 1] : 0, before = i ? c->samples[i - 1] : 0;
    return before + (c->samples[i] - before) * clamp((at_ns - begin_ns) / fmax((double)k->end_ns[i] - begin_ns, 1));
}

/*
 * Whether blocks that are kept came more slowly in the second half of the time than in the first one, by more than
 * chance. What was allocated at the very start is in neither half. Blocks may come in bursts: the variance is measured
 * between neighbours (J. von Neumann 1941).
 */
static bool slows(const struct dp_leaks_curve *c, const struct dp_leaks_clock *k, size_t last)
{
    double end = (double)k->end_ns[last], start = fmax(START * end, (double)k->end_ns[0]);
    double all = c->samples[last] - samples_at(c, k, start),
           later = c->samples[last] - samples_at(c, k, (start + end) / 2), squares = 0, before = 0;
    for (size_t i = 1; i <= last; i++) {
        double step = c->samples[i] - c->samples[i - 1];
        squares += i > 1 ? (step - before) * (step - before) : 0;
        before = step;
    }
    double dispersion = fmax(squares / fmax(2 * all, 1e-9) / (1 + sqrt(3 / (double)last)), 1);
    return later < SLOWER * all && above(all / 2 - later - 0.5, dispersion * all / 4) < BY_CHANCE;
}

/*
 * Whether it is not sure that growth has ended, or never was, whatever share it has in the growth of the process. It is
 * sure only where the order of frees explains the curve: else a load that seems higher may hide a leak.
 */
static bool may_go_on(const struct dp_leaks_likelihoods *l, bool is_replaced)
{
    double on = PRIOR * l->goes_on;
    return !(l->has_order || is_replaced) ||
           on >= (is_replaced ? REPLACED : OPEN) * (on + l->ended + PRIOR_NONE * (l->by_load + l->steady));
}

/*
 * Blocks that leaked stay in use. So the fewest that are in use at any point of the last quarter are the most that had
 * leaked before it.
 */
static bool is_too_few(const struct dp_leaks_curve *c, const struct dp_leaks_clock *k, size_t last)
{
    double least = INFINITY;
    for (size_t i = k->warm; i <= last; i++)
        if (4 * k->end_ns[i] >= 3 * k->end_ns[last])
            least = fmin(least, c->samples[i]);
    return least < DP_LEAKS_FEWEST && freed(c, k->warm, last) > fmax(c->samples[last], DP_LEAKS_FEWEST);
}

static struct dp_leaks_evidence judge_by(const struct dp_leaks_process *p, const struct dp_leaks_curve *c,
                                         double all_growth, bool by_cpu)
{
    struct dp_leaks_evidence e = {.kind = DP_LEAKS_STEADY};
    struct dp_leaks_clock k;
    struct dp_leaks_window w;
    struct dp_leaks_curve settled;
    e.n_sampled = sum(c->allocated_samples, 0, p->n_points);
    e.n_left = p->n_points ? c->samples[p->n_points - 1] : 0;
    if (p->n_points < DP_LEAKS_TICKS_NEEDED)
        return e;
    dp_leaks_clock_of(p, c, by_cpu, &k);
    size_t last = p->n_points - 1, half = k.warm;
    e.freed = e.n_sampled > 0 ? clamp(1 - c->samples[last] / e.n_sampled) : 0;
    const struct dp_leaks_curve *all = c;
    if (dp_leaks_buffers_settle(p, c, k.warm, &settled))
        c = &settled;
    while (half + 2 < last && 3 * (k.end_ns[half] - k.end_ns[k.warm]) < k.end_ns[last] - k.end_ns[k.warm])
        half++; /* of the work: if idle time follows it, the growth is all before the middle of the points */
    double slope = dp_leaks_slope_of(k.end_ns, c->bytes, half, last + 1).per_hour;
    e.bytes_per_hour = dp_leaks_slope_of(k.clock_ns, c->bytes, half, last + 1).per_hour;
    if (slope <= 0 || e.bytes_per_hour <= 0)
        e.bytes_per_hour = slope;
    e.since_ns = since(p, c);
    count_steps(c, k.warm, last, &e);
    if (doubles(p, all, c->bytes, &k, all_growth, &e))
        return e;
    if (is_too_few(c, &k, last))
        return e;
    bool is_replaced = c->samples[last] >= MANY && freed(c, k.warm, last) >= TURNS * c->samples[last];
    double pace = open_pace(c, &k, last, all_growth);
    e.is_open = pace > 0 && (c == all || !is_overdue(c, &k, last));
    double growth = growth_since(c, k.warm, last), share = all_growth > 0 ? growth / all_growth : 0;
    if (e.is_open && slope <= 0)
        e.bytes_per_hour = dp_leaks_clock_pace(&k, pace, 0, last);
    if (growth <= 0 || slope <= 0 || c->samples[last] <= 0) {
        bool none_came = sum(c->allocated_samples, half + 1, last + 1) < 0.5;
        e.kind = c->samples[half] > 0 && none_came ? DP_LEAKS_ONCE : DP_LEAKS_STEADY;
        if (e.is_open && c->samples[last] > 0) {
            fill_window(c, &k, last, &w);
            struct dp_leaks_likelihoods none = dp_leaks_compare(&w);
            e.is_open = w.is_kept || may_go_on(&none, is_replaced);
        }
        return e;
    }
    fill_window(c, &k, last, &w);
    struct dp_leaks_likelihoods l = dp_leaks_compare(&w);
    bool is_slowing = w.is_kept && slows(c, &k, last);
    if (w.is_kept) { /* an end must be seen by the work of the others, and by the clock */
        struct dp_leaks_clock even = dp_leaks_clock_even(&k, p->n_points);
        fill_window(c, &even, last, &w);
        struct dp_leaks_likelihoods by_clock = w.is_kept ? dp_leaks_compare(&w) : l;
        if (by_clock.goes_on * l.ended > l.goes_on * by_clock.ended) {
            l = by_clock;
            e.n_up = e.n_down = 0;
            count_steps(c, even.warm, last, &e);
        }
        is_slowing = is_slowing && slows(c, &even, last);
        w.is_kept = true;
    }
    double on = PRIOR * l.goes_on;
    if (e.is_open && !w.is_kept)
        e.is_open = may_go_on(&l, is_replaced);
    if (w.is_kept) {
        double all = on + l.ended;
        e.chance = clamp(exp2(-(double)e.n_up) / fmax(share, 1e-9));
        e.confidence = (1 - e.chance) * on / all;
        e.ended = (1 - e.chance) * l.ended / all;
        if (is_slowing) {
            e.ended += ENDING * e.confidence;
            e.confidence -= ENDING * e.confidence;
        }
    } else {
        double steady = PRIOR_NONE * l.steady, by_load = PRIOR_NONE * l.by_load;
        if (!load_rose(c, &k, k.warm, last)) /* what it explains is chance */
            steady += by_load, by_load = 0;
        double all = share * on + l.ended + by_load + steady;
        e.confidence = share * on / all, e.ended = l.ended / all, e.by_load = by_load / all, e.chance = steady / all;
    }
    e.kind = e.confidence >= 0.5 ? DP_LEAKS_GROWING : e.ended > 0.5 ? DP_LEAKS_FILLED : DP_LEAKS_STEADY;
    return e;
}

struct dp_leaks_evidence dp_leaks_evidence_of(const struct dp_leaks_process *p, const struct dp_leaks_curve *c,
                                              double all_growth)
{
    struct dp_leaks_process before = dp_leaks_teardown_skip(p, c->bytes, c->end_bytes);
    return judge_by(&before, c, all_growth, false);
}

struct dp_leaks_evidence dp_leaks_evidence_by_cpu(const struct dp_leaks_process *p, const struct dp_leaks_curve *c,
                                                  double all_growth)
{
    struct dp_leaks_process before = dp_leaks_teardown_skip(p, c->bytes, c->end_bytes);
    bool is_known = sum(p->cpu_ns, 0, p->n_points) > 0;
    struct dp_leaks_evidence e = judge_by(&before, c, all_growth, is_known);
    e.by_cpu = is_known;
    return e;
}
