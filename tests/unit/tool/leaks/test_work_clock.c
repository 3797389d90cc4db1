/* SPDX-License-Identifier: MIT */
/* Time is work: which share of it has passed at a tick, by the work of the others, by its duration, and by CPU time. */
#include "support/unit.h"

#include "rows.h"
#include "tool/leaks/clock.h"

/* Sampled blocks that a stack and the others allocate in each tick of a second, and the CPU time of the program. */
struct row {
    const char *rule;
    double own[ROW_TICKS], others[ROW_TICKS], cpu_ms[ROW_TICKS];
    int tick;                   /* at the end of which the shares are taken */
    double work_low, work_high; /* of the time by work */
    double even_low, even_high; /* of the time by its duration */
};

#define EIGHT(x)   x, x, x, x, x, x, x, x
#define FIFTEEN(x) EIGHT(x), x, x, x, x, x, x, x

static const struct row by_work[] = {
    {"idle time does not count", {0}, {EIGHT(50), EIGHT(0)}, {0}, 7, 0.9, 1, 0.7, 1},
    {"much work in a tick is more than little", {0}, {EIGHT(30), EIGHT(90)}, {0}, 7, 0.2, 0.35, 0.4, 0.6},
    {"a stack is compared with others, not itself",
     {160, 160, EIGHT(0)},
     {EIGHT(500), EIGHT(500)},
     {0},
     1,
     0.1,
     0.2,
     0.1,
     0.15},
    {"its own work counts where others do nothing", {EIGHT(50), EIGHT(0)}, {0}, {0}, 7, 0.9, 1, 0.7, 1},
    {"few samples come unevenly: the time counts", {0}, {FIFTEEN(0), 1}, {0}, 14, 0.15, 0.3, 0.6, 0.75},
    {"beside work it is not idle",
     {0},
     {40, 0, 40, 0, 40, 0, 40, 0, 40, 0, 40, 0, 40, 0, 40, 0},
     {0},
     7,
     0.4,
     0.6,
     0.45,
     0.55},
    {"CPU time is no work where allocations tell it",
     {0},
     {EIGHT(50), EIGHT(0)},
     {EIGHT(500), EIGHT(500)},
     7,
     0.9,
     1,
     0.7,
     1},
};

static const struct row by_cpu[] = {
    {"a program that computes works", {0}, {EIGHT(50), EIGHT(0)}, {EIGHT(500), EIGHT(500)}, 7, 0.5, 0.9, 0.45, 0.55},
    {"a program that sleeps does not", {0}, {EIGHT(50), EIGHT(0)}, {EIGHT(500), EIGHT(1)}, 7, 0.9, 1, 0.7, 1},
    {"what a tick costs is no work", {0}, {EIGHT(50), EIGHT(0)}, {EIGHT(3), EIGHT(3)}, 7, 0.9, 1, 0.7, 1},
};

static void check(const struct row *rows, size_t n, bool is_by_cpu)
{
    for (size_t i = 0; i < n; i++) {
        const struct row *r = &rows[i];
        static const double none[ROW_TICKS];
        struct dp_leaks_process p;
        struct dp_leaks_curve c;
        struct dp_leaks_clock k;
        fill_row(none, r->own, r->others, &p, &c);
        for (int t = 0; t < ROW_TICKS; t++)
            p.cpu_ns[t] = r->cpu_ms[t] * 1e6;
        dp_leaks_clock_of(&p, &c, is_by_cpu, &k);
        struct dp_leaks_clock even = dp_leaks_clock_even(&k, ROW_TICKS);
        double work = (double)k.end_ns[r->tick] / (double)k.end_ns[ROW_TICKS - 1],
               duration = (double)even.end_ns[r->tick] / (double)even.end_ns[ROW_TICKS - 1];
        if (work < r->work_low || work > r->work_high || duration < r->even_low || duration > r->even_high)
            fail_msg("%s: %.2f of the work, %.2f of its duration", r->rule, work, duration);
        for (int t = 1; t < ROW_TICKS; t++)
            assert_true(k.end_ns[t] >= k.end_ns[t - 1] && k.clock_ns[t] >= k.clock_ns[t - 1]);
        assert_true(4 * k.end_ns[k.warm] >= k.end_ns[ROW_TICKS - 1] || k.warm == ROW_TICKS - 2);
    }
}

TEST(time_is_work)
{
    check(by_work, sizeof by_work / sizeof *by_work, false);
}

TEST(time_is_cpu_time_where_that_is_asked)
{
    check(by_cpu, sizeof by_cpu / sizeof *by_cpu, true);
}

UNIT(NULL, NULL)
