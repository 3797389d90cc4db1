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
 * Blocks must have become more; or they are few, and were made larger again and again, which counts as if each time one
 * more was kept (tool/leaks/buffers.c). A buffer that doubles when it is full is judged by its steps
 * (tool/leaks/doubling.c). Growth whose end is not seen stays open (tool/leaks/plateau.c), unless the models say that
 * it hardly goes on.
 *
 * The priors were chosen on the programs of tests/leaks.
 */
#include "tool/leaks/evidence.h"

#include "tool/leaks/buffers.h"
#include "tool/leaks/curve.h"
#include "tool/leaks/doubling.h"
#include "tool/leaks/load.h"
#include "tool/leaks/plateau.h"
#include "tool/leaks/slope.h"
#include "tool/leaks/teardown.h"

#include <math.h>

#define TURNOVER_LESS 0.8  /* by this share less weight has growth of memory that is all freed again */
#define FEW_FREED     0.1  /* of the growth: up to this share, blocks are kept */
#define PRIOR         1.8  /* odds that growth goes on, against that it has ended */
#define PRIOR_NONE    4.5  /* the same, that there is none, or that a higher load explains it, if blocks turn over */
#define MANY          30   /* blocks: beside fewer, a slow leak is not seen */
#define TURNS         4    /* times that the blocks of a plateau were replaced: its end is seen */
#define ENDING        0.5  /* of the probability that growth that slows goes on: so much is that it ends */
#define OPEN          0.02 /* probability that growth goes on: below it, its end is seen */
#define SEEN          0.08 /* the same, where a leak would be seen */

/* A curve with what its rules look at. */
struct judged {
    const struct dp_leaks_process *p;
    const struct dp_leaks_curve *c; /* in which blocks become more, not larger */
    struct dp_leaks_clock clock;
    size_t last, half; /* points: the last one; from this one on, pace is measured */
    double slope;      /* from half on, in bytes an hour of work */
    double share;      /* of the growth of the process */
    bool has_power;    /* its blocks are many, and were replaced again and again or become less: a leak would be seen */
};

static double clamp(double value)
{
    return value < 0 ? 0 : value > 1 ? 1 : value;
}

/* The time at which the growth began: 95 % of the growth comes after it. */
static int64_t find_begin(const struct dp_leaks_process *p, const struct dp_leaks_curve *c)
{
    size_t last = p->n_points - 1, at = 0;
    double growth = c->bytes[last] - c->bytes[0];
    while (at + 1 < last && c->bytes[at + 1] - c->bytes[0] < growth / 20)
        at++;
    return at || c->bytes[0] > growth / 20 ? p->times_ns[at] : p->start_ns;
}

/* By the line that fits best, as the first and the last point of what comes and goes are chance. */
static double growth_since(const struct dp_leaks_curve *c, const struct dp_leaks_clock *k, size_t first, size_t last)
{
    double hours = (double)(k->end_ns[last] - k->end_ns[first]) / 3600e9;
    double growth = fmax(dp_leaks_slope_of(k->end_ns, c->bytes, first, last + 1).per_hour * hours, 0),
           allocated = dp_leaks_curve_sum(c->allocated_samples, first + 1, last + 1);
    return growth * (1 - TURNOVER_LESS * (allocated > 0 ? clamp(dp_leaks_curve_freed(c, first, last) / allocated) : 0));
}

double dp_leaks_growth(const struct dp_leaks_process *p, const struct dp_leaks_curve *c)
{
    struct dp_leaks_process before = dp_leaks_teardown_skip(p, c->bytes, c->end_bytes);
    struct dp_leaks_clock k;
    struct dp_leaks_curve settled;
    dp_leaks_clock_of(&before, c, false, &k);
    if (dp_leaks_buffers_settle(&before, c, k.warm, &settled))
        c = &settled;
    return before.n_points < 2 ? 0 : growth_since(c, &k, k.warm, before.n_points - 1);
}

static void count_steps(const struct dp_leaks_curve *c, size_t first, size_t last, struct dp_leaks_evidence *e)
{
    e->n_steps = last - first;
    e->n_up = e->n_down = 0;
    for (size_t i = first; i < last; i++) {
        e->n_up += c->bytes[i + 1] > c->bytes[i];
        e->n_down += c->bytes[i + 1] < c->bytes[i];
    }
}

static void fill_window(const struct judged *j, const struct dp_leaks_clock *k, struct dp_leaks_window *w)
{
    const struct dp_leaks_curve *c = j->c;
    size_t first = k->warm, last = j->last;
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
    w->is_kept = dp_leaks_curve_freed(c, first, last) <= FEW_FREED * (c->samples[last] - c->samples[first]);
    if (!w->is_kept)
        dp_leaks_load_fill(c, k, w);
}

/*
 * Whether the stack may still grow. That is excluded only where the order of frees explains the curve, or where a leak
 * of the stack would be seen; otherwise a load that seems to rise may hide one.
 */
static bool may_go_on(const struct judged *j, const struct dp_leaks_likelihoods *l)
{
    double on = PRIOR * l->goes_on;
    return !(l->has_order || j->has_power) ||
           on >= (j->has_power ? SEEN : OPEN) * (on + l->ended + PRIOR_NONE * (l->by_load + l->steady));
}

/* Blocks that are kept. Their end must be seen by the work of the others, and by the clock. */
static void weigh_kept(const struct judged *j, struct dp_leaks_likelihoods l, struct dp_leaks_evidence *e)
{
    struct dp_leaks_clock even = dp_leaks_clock_even(&j->clock, j->p->n_points);
    struct dp_leaks_window w;
    fill_window(j, &even, &w);
    struct dp_leaks_likelihoods by_clock = w.is_kept ? dp_leaks_compare(&w) : l;
    if (by_clock.goes_on * l.ended > l.goes_on * by_clock.ended) {
        l = by_clock;
        count_steps(j->c, even.warm, j->last, e);
    }
    double on = PRIOR * l.goes_on, all = on + l.ended;
    bool is_slowing = dp_leaks_plateau_nears(j->c, &j->clock, j->last) && dp_leaks_plateau_nears(j->c, &even, j->last);
    e->chance = clamp(exp2(-(double)e->n_up) / fmax(j->share, 1e-9));
    e->confidence = (1 - e->chance) * on / all * (is_slowing ? 1 - ENDING : 1);
    e->ended = 1 - e->chance - e->confidence;
}

/* Blocks that turn over. */
static void weigh_turnover(const struct judged *j, const struct dp_leaks_likelihoods *l, struct dp_leaks_evidence *e)
{
    double on = PRIOR * j->share * l->goes_on, steady = PRIOR_NONE * l->steady, by_load = PRIOR_NONE * l->by_load;
    if (!dp_leaks_load_rose(j->c, &j->clock, j->clock.warm, j->last)) /* what it explains is chance */
        steady += by_load, by_load = 0;
    double all = on + l->ended + by_load + steady;
    e->confidence = on / all, e->ended = l->ended / all, e->by_load = by_load / all, e->chance = steady / all;
}

/* A curve of which an end may be seen; *e has its numbers. */
static void weigh(const struct judged *j, struct dp_leaks_evidence *e)
{
    struct dp_leaks_window w;
    bool grows = j->share > 0 && j->slope > 0;
    if (!grows && !e->is_open)
        return;
    fill_window(j, &j->clock, &w);
    struct dp_leaks_likelihoods l = dp_leaks_compare(&w);
    if (!w.is_kept)
        e->is_open = e->is_open && may_go_on(j, &l);
    if (!grows)
        return;
    if (w.is_kept)
        weigh_kept(j, l, e);
    else
        weigh_turnover(j, &l, e);
    e->kind = e->confidence >= 0.5 ? DP_LEAKS_GROWING : e->ended > 0.5 ? DP_LEAKS_FILLED : DP_LEAKS_STEADY;
}

/* Measures the pace of the last two thirds of what counts: by work, into j, and by the clock, into e. */
static void measure_pace(struct judged *j, struct dp_leaks_evidence *e)
{
    const struct dp_leaks_clock *k = &j->clock;
    j->half = k->warm; /* if idle time follows the work, all growth is before the middle of the points */
    while (j->half + 2 < j->last &&
           3 * (k->end_ns[j->half] - k->end_ns[k->warm]) < k->end_ns[j->last] - k->end_ns[k->warm])
        j->half++;
    j->slope = dp_leaks_slope_of(k->end_ns, j->c->bytes, j->half, j->last + 1).per_hour;
    e->bytes_per_hour = dp_leaks_slope_of(k->clock_ns, j->c->bytes, j->half, j->last + 1).per_hour;
    if (j->slope <= 0 || e->bytes_per_hour <= 0)
        e->bytes_per_hour = j->slope;
}

static struct dp_leaks_evidence judge_by(const struct dp_leaks_process *p, const struct dp_leaks_curve *c,
                                         double all_growth, bool by_cpu)
{
    struct dp_leaks_evidence e = {.kind = DP_LEAKS_STEADY};
    struct judged j = {.p = p, .c = c, .last = p->n_points - 1};
    struct dp_leaks_curve settled;
    e.n_sampled = dp_leaks_curve_sum(c->allocated_samples, 0, p->n_points);
    e.n_left = p->n_points ? c->samples[j.last] : 0;
    if (p->n_points < DP_LEAKS_TICKS_NEEDED)
        return e;
    dp_leaks_clock_of(p, c, by_cpu, &j.clock);
    size_t warm = j.clock.warm;
    e.freed = e.n_sampled > 0 ? clamp(1 - e.n_left / e.n_sampled) : 0;
    if (dp_leaks_buffers_settle(p, c, warm, &settled))
        j.c = &settled;
    measure_pace(&j, &e);
    e.since_ns = find_begin(p, j.c);
    count_steps(j.c, warm, j.last, &e);
    if (dp_leaks_doubling_find(p, c, j.c->bytes, &j.clock, all_growth, &e) ||
        dp_leaks_plateau_is_empty(j.c, &j.clock, j.last) || j.c->samples[j.last] <= 0)
        return e;
    double freed = dp_leaks_curve_freed(j.c, warm, j.last);
    j.share = all_growth > 0 ? growth_since(j.c, &j.clock, warm, j.last) / all_growth : 0;
    j.has_power =
        j.c->samples[j.last] >= MANY && (freed >= TURNS * j.c->samples[j.last] || j.share <= 0 || j.slope <= 0);
    double pace = dp_leaks_plateau_open_pace(j.c, &j.clock, j.last, all_growth);
    e.is_open = pace > 0 && (j.c == c || !dp_leaks_doubling_is_overdue(j.c, &j.clock, j.last));
    if (e.is_open && j.slope <= 0)
        e.bytes_per_hour = dp_leaks_clock_pace(&j.clock, pace, 0, j.last);
    bool came = dp_leaks_curve_sum(j.c->allocated_samples, j.half + 1, j.last + 1) >= 0.5;
    if (j.c->samples[j.half] > 0 && !came)
        e.kind = DP_LEAKS_ONCE;
    weigh(&j, &e);
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
    bool is_known = dp_leaks_curve_sum(p->cpu_ns, 0, p->n_points) > 0;
    struct dp_leaks_evidence e = judge_by(&before, c, all_growth, is_known);
    e.by_cpu = is_known;
    return e;
}
