/* SPDX-License-Identifier: MIT */
/* Verdicts on thousands of simulated stacks: each block is sampled or not, and each is freed at a time of its own. */
#include "support/unit.h"
#include <math.h>
#include <string.h>

#include "simulated.h"
#include "tool/leaks/clock.h"
#include "tool/leaks/judge.h"

/* The share of runs in which its confidence is `least` or more; it makes `share` of the growth of its process. */
static double sure_of(const struct stack *s, double share, double least)
{
    int n = 0;
    for (int run = 0; run < RUNS; run++) {
        struct dp_leaks_process p;
        struct dp_leaks_curve c;
        simulate(s, &p, &c);
        struct dp_leaks_evidence e = dp_leaks_evidence_of(&p, &c, dp_leaks_growth(&p, &c) / share);
        assert_true(e.confidence >= 0 && e.confidence <= 1 && e.chance >= 0 && e.chance <= 1);
        n += e.confidence >= least;
    }
    return (double)n / RUNS;
}

static double called_leak(const struct stack *s, double share)
{
    return sure_of(s, share, 0.5);
}

static double half_a_block(int tick)
{
    (void)tick;
    return 0.5;
}

static double quarter_of_a_block(int tick)
{
    (void)tick;
    return 0.25;
}

static double in_bursts(int tick)
{
    return tick % 6 == 2 ? 8 : 0;
}

static double by_shifts(int tick)
{
    return tick % 10 < 5 ? 1 : 0;
}

static double until_three_fifths(int tick)
{
    return tick < TICKS * 0.6 ? 1 : 0;
}

static double slowly_ever_slower(int tick)
{
    return 16 * exp(-tick / 10.0);
}

static double four_in_the_first_third(int tick)
{
    return tick < TICKS / 3 ? 4 : 0;
}

static double until_half(int tick)
{
    return tick < TICKS / 2 ? 2 : 0;
}

static double ever_slower(int tick)
{
    return 20 * exp(-tick / 5.0);
}

static double rising(int tick)
{
    return 10 + tick;
}

static double from_half(int tick)
{
    return tick < TICKS / 2 ? 0 : 1.5;
}

static double doubling(int tick)
{
    return tick < 14 ? 20 : 40;
}

static int three_ticks(int tick)
{
    (void)tick;
    return 3;
}

static int ten_ticks(int tick)
{
    (void)tick;
    return 10;
}

/* Geometric, five ticks in the mean. */
static int some_ticks(int tick)
{
    (void)tick;
    int n = 1;
    while (random_share() > 0.2)
        n++;
    return n;
}

/* Nineteen in twenty end within their tick. */
static int mostly_at_once(int tick)
{
    (void)tick;
    return random_share() < 0.95 ? 0 : FOREVER;
}

static int until_full(int tick)
{
    return tick < 12 ? FOREVER : 0;
}

TEST(a_leak_is_found)
{
    assert_true(called_leak(&(struct stack){one, forever}, 1) > 0.92);
    assert_true(called_leak(&(struct stack){one, forever}, 0.05) > 0.9);
    assert_true(called_leak(&(struct stack){twenty, forever}, 0.01) > 0.99);
    assert_true(called_leak(&(struct stack){half_a_block, forever}, 1) > 0.95);
    assert_true(called_leak(&(struct stack){quarter_of_a_block, forever}, 1) > 0.85);
    assert_true(called_leak(&(struct stack){in_bursts, forever}, 1) > 0.95);
    assert_true(called_leak(&(struct stack){by_shifts, forever}, 0.2) > 0.9);
    assert_true(called_leak(&(struct stack){from_half, forever}, 1) > 0.95);
    assert_true(called_leak(&(struct stack){rising, forever}, 1) > 0.99);
}

/*
 * Each tick allocates 20 times more blocks than in the first one, and frees them soon; or it moves one buffer to a
 * larger block 20 times. The bytes, and so the samples, are the same, but a buffer is never more than one block.
 */
static struct dp_leaks_evidence of_more_each_tick(bool more_blocks)
{
    struct dp_leaks_process p = {.n_points = TICKS, .start_ns = 1, .rate = 524288};
    struct dp_leaks_curve c = {0};
    for (int t = 0; t < TICKS; t++) {
        p.times_ns[t] = 1 + (t + 1) * 15000000000LL;
        p.work[t] = 20.0 * (t + 1) + 80;
        c.samples[t] = more_blocks ? poisson(t + 1) : t + 1;
        c.bytes[t] = c.samples[t] * SAMPLE;
        c.allocated_samples[t] = 20.0 * (t + 1);
        c.allocated_objects[t] = more_blocks ? 20.0 * (t + 1) : 20;
    }
    return dp_leaks_evidence_of(&p, &c, dp_leaks_growth(&p, &c));
}

TEST(a_buffer_that_only_grows_is_no_higher_load)
{
    int n_leaks = 0, n_by_load = 0;
    struct dp_leaks_evidence e = of_more_each_tick(false);
    assert_true(e.confidence >= 0.5 && e.by_load < 0.01);
    for (int run = 0; run < RUNS; run++) {
        e = of_more_each_tick(true);
        n_leaks += e.confidence >= 0.5;
        n_by_load += e.by_load > 0.5;
    }
    assert_true(n_leaks < 0.02 * RUNS && n_by_load > 0.9 * RUNS);
}

TEST(a_leak_of_a_twentieth_of_the_traffic_is_found)
{
    assert_true(called_leak(&(struct stack){twenty, mostly_at_once}, 1) > 0.9);
}

static double six_after_a_jump(int tick)
{
    return tick == TICKS / 4 + 1 ? 30 : 6;
}

/* Two in three end in their tick. */
static int one_in_three_stays(int tick)
{
    (void)tick;
    return random_share() < 2.0 / 3 ? 0 : FOREVER;
}

TEST(a_jump_before_a_steady_leak_does_not_hide_it)
{
    assert_true(called_leak(&(struct stack){six_after_a_jump, one_in_three_stays}, 1) > 0.8);
}

TEST(what_turns_over_is_seldom_called_a_leak)
{
    static const struct stack sound[] = {
        {one, three_ticks}, {one, some_ticks}, {twenty, three_ticks}, {twenty, some_ticks}, {twenty, ten_ticks}};
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
        assert_true(called_leak(&sound[i], 1) < 0.06);
        assert_true(called_leak(&sound[i], 0.1) < 0.02);
    }
}

TEST(what_has_filled_is_seldom_called_a_leak)
{
    assert_true(called_leak(&(struct stack){until_half, forever}, 1) < 0.01);
    assert_true(called_leak(&(struct stack){until_three_fifths, forever}, 1) < 0.04);
    assert_true(called_leak(&(struct stack){slowly_ever_slower, forever}, 1) < 0.05);
    assert_true(called_leak(&(struct stack){ever_slower, forever}, 1) < 0.02);
    assert_true(called_leak(&(struct stack){twenty, until_full}, 1) < 0.01);
}

/* Of 100 blocks, a fifth still comes in the second half of the time, and hardly any end is seen. */
static double nearing_a_bound(int tick)
{
    return 8 * exp(-tick / 12.8);
}

static double many_then_one(int tick)
{
    return tick ? 1 : 30;
}

TEST(a_cache_that_nears_its_bound_is_seldom_called_a_leak)
{
    assert_true(sure_of(&(struct stack){nearing_a_bound, forever}, 1, DP_LEAKS_SURE) < 0.02);
    assert_true(sure_of(&(struct stack){many_then_one, forever}, 1, DP_LEAKS_SURE) > 0.9); /* it does not slow */
}

TEST(a_higher_load_is_seldom_called_a_leak)
{
    assert_true(called_leak(&(struct stack){rising, three_ticks}, 1) < 0.15);
    assert_true(called_leak(&(struct stack){doubling, three_ticks}, 1) < 0.02);
    assert_true(called_leak(&(struct stack){doubling, some_ticks}, 1) < 0.02);
}

/* The share of runs in which growth is open, or a leak is in doubt at least. */
static double in_doubt(const struct stack *s)
{
    int n = 0;
    for (int run = 0; run < RUNS; run++) {
        struct dp_leaks_process p;
        struct dp_leaks_curve c;
        simulate(s, &p, &c);
        struct dp_leaks_evidence e = dp_leaks_evidence_of(&p, &c, dp_leaks_growth(&p, &c));
        n += e.is_open || e.confidence >= 0.5;
    }
    return (double)n / RUNS;
}

/* One in ten is lost: some eight blocks of eighty, beside those that are freed in the next tick. */
static int mostly_soon(int tick)
{
    (void)tick;
    return random_share() < 0.9 ? 1 : FOREVER;
}

static double two_and_a_half(int tick)
{
    (void)tick;
    return 2.5;
}

static double four_until_half(int tick)
{
    return tick < TICKS / 2 ? 4 : 0;
}

TEST(a_leak_of_few_blocks_is_left_open)
{
    assert_true(in_doubt(&(struct stack){two_and_a_half, mostly_soon}) > 0.9);
    assert_true(in_doubt(&(struct stack){half_a_block, forever}) > 0.98);
}

TEST(growth_of_many_blocks_is_seen_to_end)
{
    assert_true(in_doubt(&(struct stack){four_until_half, forever}) < 0.1);
    assert_true(in_doubt(&(struct stack){ever_slower, forever}) < 0.1);
}

/* Growth stands still while the program is idle, and that time may be longer than the load. */
TEST(idle_time_does_not_end_growth)
{
    int n = 0;
    for (int run = 0; run < RUNS; run++) {
        struct dp_leaks_process p;
        struct dp_leaks_curve c;
        simulate(&(struct stack){four_in_the_first_third, forever}, &p, &c);
        for (int t = TICKS / 3; t < TICKS; t++)
            p.work[t] = 0;
        struct dp_leaks_evidence e = dp_leaks_evidence_of(&p, &c, dp_leaks_growth(&p, &c));
        assert_true(e.bytes_per_hour > 0);
        n += e.confidence >= 0.5;
    }
    assert_true(n > 0.85 * RUNS);
}

/*
 * The first tick loads a data set, with two thirds of all allocations; then one stack leaks a block a tick. The other
 * ticks are not idle, and the rate is one of the clock.
 */
TEST(a_load_at_the_start_is_one_tick_of_work)
{
    struct dp_leaks_process p = {.n_points = TICKS, .start_ns = 1, .rate = 524288};
    static struct dp_leaks_curve curves[2];
    memset(curves, 0, sizeof curves);
    for (int t = 0; t < TICKS; t++) {
        p.times_ns[t] = 1 + (t + 1) * 15000000000LL;
        curves[0].allocated_samples[t] = curves[0].allocated_objects[t] = t ? 0 : 200;
        curves[0].samples[t] = t ? 0 : 200;
        curves[1].allocated_samples[t] = curves[1].allocated_objects[t] = 2 + t % 2;
        curves[1].samples[t] = t + 1;
        curves[1].bytes[t] = (t + 1) * SAMPLE;
        p.work[t] = curves[0].allocated_samples[t] + curves[1].allocated_samples[t];
    }
    struct dp_leaks_evidence e = dp_leaks_evidence_of(&p, &curves[1], dp_leaks_growth(&p, &curves[1]));
    double work_ns;
    assert_true(e.confidence >= 0.5);
    assert_float_equal(e.bytes_per_hour, 240 * SAMPLE, 24 * SAMPLE);
    assert_true(dp_leaks_clock_work(&p, curves, 2, &work_ns) >= TICKS - 2);
    assert_float_equal(work_ns, TICKS * 15e9, 45e9);
}

/*
 * An array that doubles when it is full, of which each tick fills as much; its steps end with the tick `end`. Beside
 * it, the program allocates `others` sampled blocks a tick.
 */
static struct dp_leaks_evidence of_array(int end, double others)
{
    struct dp_leaks_process p = {.n_points = TICKS, .start_ns = 1, .rate = 524288};
    struct dp_leaks_curve c = {.row_value = 0};
    double capacity = SAMPLE;
    for (int t = 0; t < TICKS; t++) {
        double filled = 700000.0 * (t < end ? t + 1 : end);
        for (; capacity < filled; capacity *= 2)
            c.allocated_samples[t] = c.allocated_objects[t] = 1;
        p.times_ns[t] = 1 + (t + 1) * 15000000000LL;
        p.work[t] = others + c.allocated_samples[t];
        c.bytes[t] = capacity;
        c.samples[t] = 1;
    }
    return dp_leaks_evidence_of(&p, &c, dp_leaks_growth(&p, &c));
}

TEST(an_array_that_doubles_grows_until_it_is_overdue)
{
    struct dp_leaks_evidence e = of_array(TICKS, 80);
    assert_int_equal(e.kind, DP_LEAKS_DOUBLING);
    assert_true(e.confidence > 0.7);
    assert_float_equal(e.bytes_per_hour, 700000.0 * 240, 0.2 * 700000 * 240);
    assert_int_equal(of_array(8, 80).kind, DP_LEAKS_FILLED);
    assert_true(of_array(8, 80).confidence == 0);
}

/* Its steps are the only work that is seen, but it is filled in the ticks between them. */
TEST(an_array_is_filled_while_nothing_is_allocated)
{
    struct dp_leaks_evidence e = of_array(TICKS, 0);
    assert_int_equal(e.kind, DP_LEAKS_DOUBLING);
    assert_float_equal(e.bytes_per_hour, 700000.0 * 240, 0.2 * 700000 * 240);
}

/* Nearly all work is in the last point, which frees nearly all. */
TEST(few_points_have_quarters_too)
{
    for (size_t n = 4; n <= 6; n++) {
        struct dp_leaks_process p = {.n_points = n, .start_ns = 1, .rate = 524288, .ended = true};
        struct dp_leaks_curve c = {.row_value = 0};
        for (size_t t = 0; t < n; t++) {
            p.times_ns[t] = 1 + (int64_t)(t + 1) * 15000000000LL;
            p.work[t] = t + 1 < n ? 1 : 1000;
            c.samples[t] = t + 1 < n ? 10.0 * (double)t : 1;
            c.bytes[t] = c.samples[t] * SAMPLE;
            c.allocated_samples[t] = 10;
            c.allocated_objects[t] = 1000;
        }
        struct dp_leaks_evidence e = dp_leaks_evidence_of(&p, &c, dp_leaks_growth(&p, &c));
        assert_true(e.confidence >= 0 && e.confidence <= 1 && isfinite(e.bytes_per_hour));
        assert_true(e.is_open || n < 5); /* without the last one, four points are needed */
    }
}

TEST(ticks_without_a_change_neither_grow_nor_shrink)
{
    struct dp_leaks_process p = {.n_points = TICKS, .start_ns = 1, .rate = 524288};
    struct dp_leaks_curve c = {.row_value = 0};
    for (int t = 0; t < TICKS; t++) {
        p.times_ns[t] = 1 + (t + 1) * 15000000000LL;
        p.work[t] = 80;
        c.samples[t] = t / 4 + 1;
        c.bytes[t] = c.samples[t] * SAMPLE;
        c.allocated_samples[t] = t % 4 == 0;
    }
    struct dp_leaks_evidence e = dp_leaks_evidence_of(&p, &c, dp_leaks_growth(&p, &c));
    assert_int_equal(e.n_down, 0);
    assert_true(e.n_up >= e.n_steps / 4 && e.n_up <= e.n_steps / 4 + 1);
    assert_true(e.n_steps > 8);
}

TEST(a_process_without_ticks_has_no_growth)
{
    struct dp_leaks_process p = {.n_points = 0};
    struct dp_leaks_curve c = {.row_value = 0};
    assert_true(dp_leaks_growth(&p, &c) == 0);
    assert_true(dp_leaks_evidence_of(&p, &c, 0).confidence == 0);
}

UNIT(NULL, NULL)
