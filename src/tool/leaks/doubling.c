/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/doubling.c - finds buffers that double when they are full: a vector, a string, a hash's buckets.
 *
 * Such a buffer grows in steps ever farther apart, although its content grows steadily. At each step the size of the
 * content is known: the buffer was full. So the pace of the content is known, and the time when the buffer will be full
 * next. It counts as growing until twice that time.
 */
#include "tool/leaks/doubling.h"

#include <math.h>

#define FEWEST_STEPS 3   /* of a buffer that doubles */
#define STEP         1.3 /* factor of a step of a buffer that doubles */

static double clamp(double value)
{
    return value < 0 ? 0 : value > 1 ? 1 : value;
}

bool dp_leaks_doubling_find(const struct dp_leaks_process *p, const struct dp_leaks_curve *c, const double *bytes,
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

bool dp_leaks_doubling_is_overdue(const struct dp_leaks_curve *settled, const struct dp_leaks_clock *k, size_t last)
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
