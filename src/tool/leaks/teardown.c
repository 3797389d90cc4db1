/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/teardown.c - finds where the teardown of a process begins: programs that end may free their memory before
 * exit(), and a tick that falls into this time says nothing about the time before.
 *
 * This is the one rule about the end of a process. Whatever judges a curve gets the process without its teardown.
 *
 * Teardown are the last points in each of which no more is in use than in the one before, and in which the program does
 * not work any more, or which lost more than half; and the point before these, in which it worked and the teardown may
 * have begun, if that lost a tenth. In all, more than half is lost until the end of the process, whose value is known
 * too. If the program still worked in them, and a fall like it came earlier in the run, that is how the program works,
 * and no teardown. A process that was killed had none.
 *
 * The rule is applied twice: by the sum of all stacks, to the process; and by each stack, as a program may free one
 * table at its end and leave others.
 */
#include "tool/leaks/teardown.h"

#include <math.h>

#define BEGUN 0.9  /* of the value before: with less, teardown may have begun in a point with work */
#define LEFT  0.5  /* of the value before: with less in a point, or after all of them, it is teardown */
#define WORK  0.02 /* of the work of the process: with so little, it did not work in these points */
#define LIKE  0.25 /* of the bytes that were lost: an earlier fall of so many is like it */
enum { LONGEST = 6 /* points */, POINTS_LEFT = 4 /* what is judged has at least so many */ };

/* Whether the values before `last` once fell by so many bytes, without a rise in between. */
static bool fell_before(const double *bytes, size_t last, double least)
{
    double fell = 0;
    for (size_t i = 1; i <= last; i++) {
        fell = bytes[i] < bytes[i - 1] ? fell + bytes[i - 1] - bytes[i] : 0;
        if (fell > 0 && fell >= least)
            return true;
    }
    return false;
}

struct dp_leaks_process dp_leaks_teardown_skip(const struct dp_leaks_process *p, const double *bytes, double end_bytes)
{
    struct dp_leaks_process before = *p;
    size_t n = p->n_points, first = n;
    double work = 0, no_work = 0;
    if (!p->ended || p->was_killed || n <= POINTS_LEFT)
        return before;
    for (size_t i = 0; i < n; i++)
        no_work += WORK * p->work[i];
    while (first > POINTS_LEFT && n - first < LONGEST && bytes[first - 1] <= bytes[first - 2] &&
           (work + p->work[first - 1] <= no_work || bytes[first - 1] < LEFT * bytes[first - 2]))
        work += p->work[--first];
    if (first > POINTS_LEFT && bytes[first - 1] < BEGUN * bytes[first - 2])
        work += p->work[--first];
    while (first < n && bytes[first] >= bytes[first - 1]) /* it has not begun */
        work -= p->work[first++];
    double most = bytes[first - 1], left = fmin(end_bytes, bytes[n - 1]);
    if (left < LEFT * most && (work <= no_work || !fell_before(bytes, first - 1, LIKE * (most - left))))
        before.n_points = first;
    return before;
}

void dp_leaks_teardown_skip_all(const struct dp_leaks_series *s, struct dp_leaks_process *p)
{
    double bytes[DP_QUERY_POINTS] = {0}, end_bytes = 0;
    for (size_t i = p->first_curve; i < s->curves.n; i++) {
        for (size_t k = 0; k < p->n_points; k++)
            bytes[k] += s->curves.at[i].bytes[k];
        end_bytes += s->curves.at[i].end_bytes;
    }
    *p = dp_leaks_teardown_skip(p, bytes, end_bytes);
}
