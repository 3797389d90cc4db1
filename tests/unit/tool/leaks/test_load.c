/* SPDX-License-Identifier: MIT */
/* A higher load explains a higher level, if it rose by as much. */
#include "support/unit.h"
#include <math.h>

#include "rows.h"
#include "tool/leaks/load.h"

enum { CHANGE = 9 /* tick, of those that count the middle one */ };

/* A level and a load, before and after the change; what explains the growth. */
struct row {
    const char *rule;
    double level[2], came[2], object_share; /* after the change: objects for each byte */
    bool rose;
    double load_low, load_high; /* of the last point, 1 in the mean of all */
};

static const struct row rows[] = {
    {"both are twice as much", {20, 40}, {10, 20}, 1, true, 1.2, 1.4},
    {"the load rose by more than half as much", {20, 40}, {10, 16}, 1, true, 1.1, 1.3},
    {"the load rose by less than half as much", {20, 40}, {10, 13}, 1, false, 1, 1.2},
    {"the load is as before", {20, 40}, {10, 10}, 1, false, 0.9, 1.1},
    {"the load is less", {20, 40}, {10, 5}, 1, false, 0.6, 0.9},
    {"a few events are no load", {4, 8}, {0.1, 0.2}, 1, true, 0.95, 1.05},
    {"blocks are larger, not more", {20, 40}, {10, 20}, 0.5, true, 1.05, 1.19},
};

TEST(a_load_explains_growth_that_it_equals)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double samples[ROW_TICKS], came[ROW_TICKS], others[ROW_TICKS];
        struct dp_leaks_process p;
        struct dp_leaks_curve c;
        struct dp_leaks_clock k;
        struct dp_leaks_window w;
        for (int t = 0; t < ROW_TICKS; t++) {
            samples[t] = rows[i].level[t >= CHANGE];
            came[t] = rows[i].came[t >= CHANGE];
            others[t] = 50;
        }
        fill_row(samples, came, others, &p, &c);
        for (int t = CHANGE; t < ROW_TICKS; t++)
            c.allocated_objects[t] *= rows[i].object_share;
        dp_leaks_clock_of(&p, &c, false, &k);
        bool rose = dp_leaks_load_rose(&c, &k, k.warm, ROW_TICKS - 1);
        w.n = ROW_TICKS - k.warm;
        dp_leaks_load_fill(&c, &k, &w);
        double load = w.load[w.n - 1], mean = 0;
        for (size_t t = 0; t < w.n; t++)
            mean += w.load[t] / (double)w.n;
        if (rose != rows[i].rose || load < rows[i].load_low || load > rows[i].load_high || fabs(mean - 1) > 1e-9)
            fail_msg("%s: rose %d, the last load is %.3f of the mean, which is %.3f", rows[i].rule, rose, load, mean);
    }
}

UNIT(NULL, NULL)
