/* SPDX-License-Identifier: MIT */
/* The end of growth: a plateau of many blocks is one, of few it is not sure. */
#include "support/unit.h"
#include <math.h>

#include "rows.h"
#include "tool/leaks/plateau.h"

/* Sampled blocks at the end of each tick. Beside what they became more, `freed` come and go in each tick. */
struct row {
    const char *rule;
    double samples[ROW_TICKS], freed;
    bool is_open, nears, is_empty;
};

static const struct row rows[] = {
    {"grows", {4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64}, 0, true, false, false},
    {"grows beside much that turns over",
     {24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 68, 72, 76, 80, 84},
     20,
     true,
     false,
     false},
    {"many blocks, then none", {8, 16, 24, 32, 40, 48, 56, 64, 64, 64, 64, 64, 64, 64, 64, 64}, 0, false, true, false},
    {"few blocks, then none", {0, 0, 1, 2, 2, 3, 3, 4, 5, 6, 6, 7, 7, 7, 7, 7}, 0, true, false, false},
    {"stays", {40, 41, 39, 40, 42, 40, 38, 40, 41, 40, 39, 40, 41, 42, 40, 41}, 30, false, false, false},
    {"shrinks", {60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30}, 5, false, false, false},
    {"grew by chance", {9, 8, 10, 9, 9, 10, 8, 9, 10, 9, 11, 10, 9, 10, 11, 10}, 2, false, false, false},
    {"nears a bound",
     {30, 56, 78, 97, 113, 127, 139, 149, 158, 165, 172, 177, 182, 186, 190, 193},
     0,
     false,
     true,
     false},
    {"a jump at the start, then a steady pace",
     {60, 64, 68, 72, 76, 80, 84, 88, 92, 96, 100, 104, 108, 112, 116, 120},
     0,
     true,
     false,
     false},
    {"comes in two bursts", {0, 0, 40, 40, 40, 40, 40, 40, 40, 40, 40, 70, 70, 70, 70, 70}, 0, true, false, false},
    {"is freed to nothing in the last quarter",
     {10, 20, 30, 40, 10, 20, 30, 40, 10, 20, 30, 40, 50, 2, 30, 50},
     5,
     false,
     false,
     true},
    {"was freed to nothing before",
     {10, 20, 30, 1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120},
     5,
     true,
     false,
     false},
};

TEST(an_end_is_seen_where_there_is_one)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        double came[ROW_TICKS], others[ROW_TICKS];
        struct dp_leaks_process p;
        struct dp_leaks_curve c;
        struct dp_leaks_clock k;
        for (int t = 0; t < ROW_TICKS; t++) {
            came[t] = fmax(r->samples[t] - (t ? r->samples[t - 1] : 0), 0) + r->freed;
            others[t] = 100;
        }
        fill_row(r->samples, came, others, &p, &c);
        dp_leaks_clock_of(&p, &c, false, &k);
        bool is_open = dp_leaks_plateau_open_pace(&c, &k, ROW_TICKS - 1, 0) > 0,
             nears = dp_leaks_plateau_nears(&c, &k, ROW_TICKS - 1),
             is_empty = dp_leaks_plateau_is_empty(&c, &k, ROW_TICKS - 1);
        if (is_open != r->is_open || nears != r->nears || is_empty != r->is_empty)
            fail_msg("%s: open %d, nears %d, empty %d", r->rule, is_open, nears, is_empty);
    }
}

UNIT(NULL, NULL)
