/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/clock.c - computes in which part of the time a program worked.
 *
 * A time in which the program is idle says nothing about its leaks: a load of 8 s that leaks is a leak also if the
 * program then sleeps. So time is work, not the clock. It is what the other stacks allocated, as a stack cannot be
 * compared with itself: plus its own allocations where they are fewer; plus time in which the program was not idle,
 * worth CLOCK_SAMPLES a point, where all are few.
 *
 * Idle is a point whose rate of allocation is far below the rate at which a typical block was allocated. Paces are by
 * the clock without idle time.
 */
#include "tool/leaks/clock.h"

#include <math.h>

#define IDLE          0.5  /* of the typical rate of allocation: below it, time counts less */
#define IDLE_SHARE    0.02 /* of idle time that counts, so that no point has none */
#define WORK_SAMPLES  30   /* of a stack: so many show when it worked, although others once worked much more */
#define WORKED        0.1  /* of the activity: beside so much, a point is not idle by the clock */
#define TICK_CPU      0.01 /* of the time: so much CPU time at most is what ticks cost */
#define TICK_VARIES   2    /* of the least CPU time of a tick: what ticks cost */
#define CLOCK_SAMPLES 10   /* that the time of a point is worth: so many samples vary by a third by chance */

static double clamp(double value)
{
    return value < 0 ? 0 : value > 1 ? 1 : value;
}

static double sum(const double *values, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum;
}

static double duration(const struct dp_leaks_process *p, size_t i)
{
    return fmax((double)(p->times_ns[i] - (i ? p->times_ns[i - 1] : p->start_ns)), 1);
}

/* Adds, for each point, how much of its time was work, from 0 to 1: less if its rate is far below the typical one. */
static void add_activity(const struct dp_leaks_process *p, const double *work, double *activity)
{
    double all = sum(work, p->n_points), squares = 0;
    for (size_t i = 0; i < p->n_points; i++)
        squares += work[i] * work[i] / duration(p, i);
    for (size_t i = 0; i < p->n_points && all > 0; i++)
        activity[i] = fmax(activity[i], pow(clamp(work[i] / duration(p, i) / (IDLE * squares / all)), 2));
}

/* Fills the CPU time of each point without what its ticks cost: a program that sleeps uses little, and always the same.
 */
static void fill_cpu(const struct dp_leaks_process *p, double *cpu_ns)
{
    double least = INFINITY;
    for (size_t i = 0; i < p->n_points; i++)
        least = fmin(least, p->cpu_ns[i] / duration(p, i));
    for (size_t i = 0; i < p->n_points; i++)
        cpu_ns[i] = fmax(p->cpu_ns[i] - fmin(TICK_VARIES * least, TICK_CPU) * duration(p, i), 0);
}

static void find_warm(struct dp_leaks_clock *k, size_t n)
{
    k->warm = 0;
    while (k->warm + 2 < n && 4 * k->end_ns[k->warm] < k->end_ns[n - 1])
        k->warm++;
}

void dp_leaks_clock_of(const struct dp_leaks_process *p, const struct dp_leaks_curve *c, bool by_cpu,
                       struct dp_leaks_clock *k)
{
    double own[DP_QUERY_POINTS] = {0}, others[DP_QUERY_POINTS] = {0}, activity[DP_QUERY_POINTS] = {0};
    double cpu_ns[DP_QUERY_POINTS] = {0};
    double active_ns = 0, clock_ns = 0, all_ns = 0, counted = 0, end = 0;
    *k = (struct dp_leaks_clock){.n_work = 0};
    for (size_t i = 0; i < p->n_points; i++) {
        double allocated = c->allocated_samples[i], grown = c->samples[i] - (i ? c->samples[i - 1] : 0);
        own[i] = allocated + fmax(allocated - grown, 0);
        others[i] = fmax(p->work[i] - allocated, 0);
    }
    add_activity(p, own, activity);
    add_activity(p, others, activity);
    if (by_cpu)
        fill_cpu(p, cpu_ns);
    add_activity(p, cpu_ns, activity);
    for (size_t i = 0; i < p->n_points; i++) {
        k->n_work += activity[i] >= 0.5;
        active_ns += activity[i] * duration(p, i);
        k->active_ns[i] = active_ns;
        double beside = 0;
        for (size_t j = i < 2 ? 0 : i - 2; j < i + 3 && j < p->n_points; j++)
            beside = fmax(beside, activity[j]);
        clock_ns += (beside >= WORKED ? 1 : beside) * duration(p, i);
        k->clock_ns[i] = (int64_t)clock_ns;
        all_ns += duration(p, i);
    }
    double own_share = fmin(1, sum(others, p->n_points) / fmax(sum(own, p->n_points), 1));
    double per_ns = CLOCK_SAMPLES * (double)k->n_work / fmax(active_ns, 1);
    for (int pass = 0; pass < 2; pass++) /* at first how much there is, then in ns of work */
        for (size_t i = 0; i < p->n_points; i++) {
            double step = others[i] + own_share * own[i] + per_ns * fmax(activity[i], IDLE_SHARE) * duration(p, i);
            counted += pass ? 0 : step;
            end += pass ? step / fmax(counted, 1e-9) * fmax(active_ns, IDLE_SHARE * all_ns) : 0;
            k->end_ns[i] = (int64_t)end;
        }
    find_warm(k, p->n_points);
}

struct dp_leaks_clock dp_leaks_clock_even(const struct dp_leaks_clock *k, size_t n)
{
    struct dp_leaks_clock even = *k;
    for (size_t i = 0; i < n; i++) {
        even.end_ns[i] = k->clock_ns[i];
        even.active_ns[i] = (double)k->clock_ns[i];
    }
    find_warm(&even, n);
    return even;
}

size_t dp_leaks_clock_work(const struct dp_leaks_process *p, const struct dp_leaks_curve *curves, size_t n_curves,
                           double *work_ns)
{
    double activity[DP_QUERY_POINTS] = {0};
    size_t n_work = 0;
    add_activity(p, p->work, activity);
    for (size_t i = 0; i < n_curves; i++)
        if (sum(curves[i].allocated_samples, p->n_points) >= WORK_SAMPLES)
            add_activity(p, curves[i].allocated_samples, activity);
    *work_ns = 0;
    for (size_t i = 0; i < p->n_points; i++) {
        *work_ns += activity[i] * duration(p, i);
        n_work += activity[i] >= 0.5;
    }
    return n_work;
}

double dp_leaks_clock_pace(const struct dp_leaks_clock *k, double per_hour, size_t first, size_t last)
{
    double work = (double)(k->end_ns[last] - k->end_ns[first]),
           clock = (double)(k->clock_ns[last] - k->clock_ns[first]);
    return work > 0 && clock > 0 ? per_hour * work / clock : per_hour;
}
