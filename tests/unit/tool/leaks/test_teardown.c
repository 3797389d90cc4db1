/* SPDX-License-Identifier: MIT */
/* What a process frees before its end says nothing about the time before. */
#include "support/unit.h"

#include "simulated.h"
#include "tool/leaks/evidence.h"
#include "tool/leaks/teardown.h"

/* A leak, all of which is freed in the last tick before the process ends. */
TEST(the_end_of_the_process_does_not_end_growth)
{
    int n = 0;
    for (int run = 0; run < RUNS; run++) {
        struct dp_leaks_process p;
        struct dp_leaks_curve c;
        simulate(&(struct stack){one, forever}, &p, &c);
        p.ended = true;
        c.bytes[TICKS - 1] = c.samples[TICKS - 1] = 0;
        n += dp_leaks_evidence_of(&p, &c, dp_leaks_growth(&p, &c)).is_open;
    }
    assert_true(n > 0.85 * RUNS);
}

/* The share of runs in which a leak is found whose process ended; `left`: of it after each of the last n points. */
static double found_before_teardown(const double *left, int n)
{
    int n_found = 0;
    for (int run = 0; run < RUNS; run++) {
        struct dp_leaks_process p;
        struct dp_leaks_curve c;
        simulate(&(struct stack){twenty, forever}, &p, &c);
        p.ended = true;
        for (int i = 0, first = TICKS - n; i < n; i++) {
            c.samples[first + i] = c.samples[first - 1] * left[i];
            c.bytes[first + i] = c.bytes[first - 1] * left[i];
        }
        struct dp_leaks_evidence e = dp_leaks_evidence_of(&p, &c, dp_leaks_growth(&p, &c));
        assert_true(e.is_open || e.confidence >= 0.5);
        n_found += e.confidence >= 0.5 && e.bytes_per_hour > 0;
    }
    return (double)n_found / RUNS;
}

TEST(a_teardown_hides_no_leak)
{
    assert_true(found_before_teardown((double[]){0}, 1) > 0.99);
    for (int percent = 5; percent <= 80; percent += 25)
        assert_true(found_before_teardown((double[]){percent / 100.0}, 1) > 0.99);
    assert_true(found_before_teardown((double[]){0.4, 0.1}, 2) > 0.99);
    assert_true(found_before_teardown((double[]){0.8, 0.3, 0}, 3) > 0.99);
}

/* What grows by 20 blocks a tick, and is freed at once after `period` ticks; the last tick frees it. */
static struct dp_leaks_evidence of_batches(int period)
{
    struct dp_leaks_process p = {.n_points = TICKS, .start_ns = 1, .rate = 524288, .ended = true};
    struct dp_leaks_curve c = {.row_value = 0};
    for (int t = 0; t < TICKS; t++) {
        p.times_ns[t] = 1 + (t + 1) * 15000000000LL;
        p.work[t] = 100;
        c.samples[t] = 20 * ((t + period - TICKS + TICKS * period + 1) % period);
        c.bytes[t] = c.samples[t] * SAMPLE;
        c.allocated_samples[t] = 20;
        c.allocated_objects[t] = 2000;
    }
    return dp_leaks_evidence_of(&p, &c, dp_leaks_growth(&p, &c));
}

TEST(a_batch_that_ends_with_the_process_is_no_leak)
{
    for (int period = 2; period <= TICKS / 2; period++)
        assert_true(of_batches(period).confidence < 0.08);
}

/* A process that ended with `end` bytes in use, after n points; its teardown leaves `n_left` of them. */
struct run {
    size_t n, n_left;
    double bytes[9], work[9], end;
};

TEST(teardown_begins_where_the_work_ended)
{
    static const struct run runs[] = {
        {9, 6, {10, 20, 30, 40, 40, 40, 1, 1, 0}, {5, 5, 5, 5, 0, 0, 0, 0, 0}, 0}, /* in one go, and more later */
        {6, 5, {10, 20, 30, 40, 40, 38}, {5, 5, 5, 5, 0, 0}, 0},                   /* a little, and the rest later */
        {6, 5, {10, 20, 30, 40, 50, 40}, {5, 5, 5, 5, 5, 5}, 0},                   /* work and teardown in one tick */
        {7, 5, {10, 20, 30, 40, 50, 20, 8}, {5, 5, 5, 5, 5, 5, 5}, 8},             /* one table of many */
        {6, 6, {10, 20, 30, 40, 38, 37}, {5, 5, 5, 5, 1, 2}, 0},                   /* a cache evicts, then the end */
        {6, 6, {10, 20, 30, 40, 40, 36}, {5, 5, 5, 5, 0, 0}, 36},                  /* killed: most is still in use */
        {8, 8, {10, 20, 30, 1, 10, 20, 30, 1}, {5, 5, 5, 5, 5, 5, 5, 5}, 1},       /* a batch that ends with it */
        {8, 7, {10, 20, 30, 1, 10, 20, 30, 1}, {5, 5, 5, 5, 5, 5, 5, 0}, 1},       /* no work: it does not matter */
        {4, 4, {10, 20, 30, 1}, {5, 5, 5, 5}, 0},                                  /* too few to leave one out */
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct dp_leaks_process p = {.n_points = runs[i].n, .ended = true};
        memcpy(p.work, runs[i].work, sizeof runs[i].work);
        assert_int_equal(dp_leaks_teardown_skip(&p, runs[i].bytes, runs[i].end).n_points, runs[i].n_left);
        p.was_killed = true;
        assert_int_equal(dp_leaks_teardown_skip(&p, runs[i].bytes, runs[i].end).n_points, runs[i].n);
        p.ended = p.was_killed = false;
        assert_int_equal(dp_leaks_teardown_skip(&p, runs[i].bytes, runs[i].end).n_points, runs[i].n);
    }
}

UNIT(NULL, NULL)
