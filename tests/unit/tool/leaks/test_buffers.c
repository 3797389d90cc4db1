/* SPDX-License-Identifier: MIT */
/* Verdicts on tables, strings and arrays: few blocks that become larger, and memory that only looks like them. */
#include "support/unit.h"
#include <math.h>
#include <string.h>

#include "tool/leaks/evidence.h"

enum { TICKS = 40 };
#define SAMPLE 65536.0 /* mean bytes between samples */

/* Fills the curve of `number` blocks that have capacity[t] bytes each; in a tick of `copied`, one is there twice. */
static struct dp_leaks_evidence of_buffers(const double *capacity, double number, const bool *copied)
{
    struct dp_leaks_process p = {.n_points = TICKS, .start_ns = 1, .rate = (int64_t)SAMPLE};
    struct dp_leaks_curve c = {.row_value = 0};
    for (int t = 0; t < TICKS; t++) {
        bool is_larger = !t || capacity[t] > capacity[t - 1];
        p.times_ns[t] = 1 + (t + 1) * 2000000000LL;
        p.work[t] = 20 + (is_larger ? number : 0);
        c.samples[t] = number * -expm1(-capacity[t] / SAMPLE) + (copied && copied[t]);
        c.bytes[t] = number * capacity[t] + (copied && copied[t] ? capacity[t - 1] : 0);
        c.allocated_samples[t] = is_larger ? number : 0;
        c.allocated_objects[t] = is_larger ? number : 0;
    }
    return dp_leaks_evidence_of(&p, &c, dp_leaks_growth(&p, &c));
}

/* The capacities of a table of which `content` is used until the tick `end`, and of which no more is used then. */
static void fill_table(double *capacity, double step, double factor, int end)
{
    double now = 1e6;
    for (int t = 0; t < TICKS; t++) {
        double content = 600000.0 * ((t < end ? t : end) + 1);
        while (now < content)
            now = now * factor + step;
        capacity[t] = now;
    }
}

TEST(a_table_that_is_moved_to_larger_blocks_leaks)
{
    double capacity[TICKS];
    for (double number = 1; number <= 8; number *= 2) {
        fill_table(capacity, 500000, 1, TICKS); /* by a constant */
        struct dp_leaks_evidence e = of_buffers(capacity, number, NULL);
        assert_true(e.confidence >= 0.95 && e.is_open);
        assert_float_equal(e.bytes_per_hour, number * 600000 * 1800, number * 60000 * 1800);
        fill_table(capacity, 0, 1.25, TICKS);
        e = of_buffers(capacity, number, NULL);
        assert_true(e.confidence >= 0.85);
    }
}

TEST(a_table_that_is_not_made_larger_any_more_has_ended)
{
    double capacity[TICKS];
    fill_table(capacity, 500000, 1, TICKS / 2);
    struct dp_leaks_evidence e = of_buffers(capacity, 1, NULL);
    assert_true(e.confidence < 0.08 && !e.is_open);
    fill_table(capacity, 0, 1.25, TICKS / 2);
    e = of_buffers(capacity, 1, NULL);
    assert_true(e.confidence < 0.08 && !e.is_open);
}

/* In the tick of each step, the old block and the new one are there together. */
TEST(a_step_that_is_seen_while_it_is_copied_is_one_step)
{
    double capacity[TICKS], now = 1e6;
    bool copied[TICKS] = {false};
    for (int t = 0, next = 1; t < TICKS; t++) {
        if (t == next) {
            now *= 2;
            next = 2 * next + 1; /* each period is twice the last one */
            copied[t] = t > 2;
        }
        capacity[t] = now;
    }
    struct dp_leaks_evidence e = of_buffers(capacity, 1, copied);
    assert_int_equal(e.kind, DP_LEAKS_DOUBLING);
    assert_true(e.confidence > 0.85);
    fill_table(capacity, 500000, 1, TICKS);
    for (int t = 1; t < TICKS; t++)
        copied[t] = t % 4 == 3;
    assert_true(of_buffers(capacity, 1, copied).confidence >= 0.95);
}

/* One block for each request, each of another size, of which the last ones are the largest. */
TEST(a_buffer_of_a_request_is_no_table)
{
    double capacity[TICKS];
    for (int t = 0; t < TICKS; t++)
        capacity[t] = 1e6 * (1 + (t * 7) % 5 + (t + 3 >= TICKS ? 5 : 0));
    struct dp_leaks_evidence e = of_buffers(capacity, 1, NULL);
    assert_true(e.confidence < 0.5);
}

/* Three blocks are added to a hundred that stay: nothing is moved to a larger block. */
TEST(blocks_that_are_kept_are_no_table)
{
    struct dp_leaks_process p = {.n_points = TICKS, .start_ns = 1, .rate = (int64_t)SAMPLE};
    struct dp_leaks_curve c = {.row_value = 0};
    for (int t = 0; t < TICKS; t++) {
        int n_late = (t > 10) + (t > 14) + (t > 16);
        p.times_ns[t] = 1 + (t + 1) * 2000000000LL;
        p.work[t] = 80;
        c.samples[t] = 100 + n_late;
        c.bytes[t] = c.samples[t] * SAMPLE;
        c.allocated_samples[t] = t == 0 ? 100 : t == 11 || t == 15 || t == 17;
        c.allocated_objects[t] = c.allocated_samples[t];
    }
    struct dp_leaks_evidence e = dp_leaks_evidence_of(&p, &c, dp_leaks_growth(&p, &c));
    assert_true(e.confidence < 0.5 && !e.is_open);
}

UNIT(NULL, NULL)
