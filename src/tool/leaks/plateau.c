/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/plateau.c - finds the end of growth.
 *
 * That growth is probably chance or load does not show that there is no leak: of few blocks that turn over, a slow leak
 * looks like a queue whose length wanders. So growth is open until its end is seen: the level of the last quarter is
 * above that of the first one by more than chance, and what the last quarter added is not less, by more than chance,
 * than the same pace would have added. The second test has power only if there are blocks enough.
 *
 * A cache nears its bound ever more slowly, so its end is not seen, but can be foreseen: memory that is kept and came
 * much more slowly in the second half of the time, the first quarter included, is likely to end, and may go on. What
 * was allocated at the very start is in neither half. Blocks may come in bursts: the variance is measured between
 * neighbours (J. von Neumann 1941).
 *
 * Blocks that leaked stay in use. So the fewest that are in use at any point of the last quarter are the most that had
 * leaked before it.
 */
#include "tool/leaks/plateau.h"

#include "tool/leaks/curve.h"
#include "tool/leaks/models.h"

#include <math.h>

#define START     0.05 /* of the time, at least the first point: the very start of a program */
#define SLOWER    0.4  /* of the growth: with less in the second half of the time, it slows */
#define BY_CHANCE 0.01 /* probability of so little by chance: below it, it slows */
#define GREW      0.05 /* probability of a higher level by chance: below it, there was growth */
#define STOPPED   0.05 /* the same, of so little growth at an unchanged pace: below it, growth has ended */

static double clamp(double value)
{
    return value < 0 ? 0 : value > 1 ? 1 : value;
}

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
    double all = 0, squares = 0, allocated = dp_leaks_curve_sum(c->allocated_samples, first, last + 1);
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

double dp_leaks_plateau_open_pace(const struct dp_leaks_curve *c, const struct dp_leaks_clock *k, size_t last,
                                  double all_growth)
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

/* Sampled blocks in use at a time. */
static double samples_at(const struct dp_leaks_curve *c, const struct dp_leaks_clock *k, double at_ns)
{
    size_t i = 0;
    while (i + 1 < DP_QUERY_POINTS && (double)k->end_ns[i] < at_ns)
        i++;
    double begin_ns = i ? (double)k->end_ns[i - 1] : 0, before = i ? c->samples[i - 1] : 0;
    return before + (c->samples[i] - before) * clamp((at_ns - begin_ns) / fmax((double)k->end_ns[i] - begin_ns, 1));
}

bool dp_leaks_plateau_nears(const struct dp_leaks_curve *c, const struct dp_leaks_clock *k, size_t last)
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

bool dp_leaks_plateau_is_empty(const struct dp_leaks_curve *c, const struct dp_leaks_clock *k, size_t last)
{
    double least = INFINITY;
    for (size_t i = k->warm; i <= last; i++)
        if (4 * k->end_ns[i] >= 3 * k->end_ns[last])
            least = fmin(least, c->samples[i]);
    return least < DP_LEAKS_FEWEST && dp_leaks_curve_freed(c, k->warm, last) > fmax(c->samples[last], DP_LEAKS_FEWEST);
}
