/* SPDX-License-Identifier: MIT */
/* The sampling of a heap's events: rates and their changes, bytes between samples, and the statistics of estimates. */
#include "heap_blocks.h"

#include <deltaprof/hooks.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TEST(a_profiler_that_is_off_checks_again_every_mebibyte)
{
    tune(0);
    struct dp_counts before = totals();
    deltaprof_alloc(0, block(1), 1);
    assert_int_equal(deltaprof_thread.countdown, 1 << 20);
    conf.heap_rate = 1;
    dp_record_tune(&conf, true);
    for (int i = 0; i < (1 << 20) - 1; i++)
        deltaprof_alloc(0, block(1), 1);
    assert_int_equal(totals().n, before.n);
    deltaprof_alloc(0, block(1), 1);
    assert_int_equal(totals().n, before.n + 1);
    deltaprof_free(0, block(1));
}

TEST(bytes_are_counted_without_a_sample)
{
    tune(0);
    uint64_t before = dp_heap_bytes_seen();
    for (int i = 0; i < 1000; i++)
        deltaprof_alloc(0, block(1), 100);
    dp_heap_flush_bytes();
    dp_heap_flush_bytes();
    assert_int_equal(dp_heap_bytes_seen() - before, 100000);
    for (int i = 0; i < 100000; i++)
        deltaprof_alloc(0, block(1), 100); /* the thread checks more than nine times whether the profiler is on */
    dp_heap_flush_bytes();
    assert_int_equal(dp_heap_bytes_seen() - before, 10100000);
    tune(100);
    before = dp_heap_bytes_seen();
    for (int i = 0; i < 10000; i++) {
        deltaprof_alloc(0, block(1), 77);
        deltaprof_free(0, block(1));
    }
    dp_heap_flush_bytes();
    assert_int_equal(dp_heap_bytes_seen() - before, 770000);
    tune(1);
    before = dp_heap_bytes_seen();
    for (size_t n = 0; n < 100; n++) {
        deltaprof_alloc(0, block(1), n);
        deltaprof_free(0, block(1));
    }
    assert_int_equal(dp_heap_bytes_seen() - before, 4950);
}

TEST(if_all_events_are_sampled_a_new_rate_holds_from_the_next_on)
{
    tune(0);
    deltaprof_alloc(0, block(1), 1);
    tune(1);
    deltaprof_alloc(0, block(1), 1); /* the distance is drawn at 1 now */
    deltaprof_free(0, block(1));
    struct dp_counts before = totals();
    uint64_t bytes = dp_heap_bytes_seen();
    conf.heap_rate = 0; /* as if by another thread: this thread's countdown stays */
    dp_record_tune(&conf, true);
    deltaprof_alloc(0, block(1), 100);
    assert_int_equal(totals().n, before.n);
    assert_int_equal(deltaprof_thread.countdown, (1 << 20) + 1);
    assert_int_equal(dp_heap_bytes_seen() - bytes, 100);
    tune(1);
    deltaprof_alloc(0, block(1), 0);
    deltaprof_free(0, block(1));
    before = totals();
    conf.heap_rate = 1 << 30;
    dp_record_tune(&conf, true);
    deltaprof_alloc(0, block(1), 100); /* its countdown was drawn at rate 1, so it counts once */
    deltaprof_alloc(0, block(2), 100);
    assert_int_equal(totals().n, before.n + 1);
    assert_int_equal(totals().v, before.v + 100);
    assert_true(deltaprof_thread.countdown >= 1 && deltaprof_thread.countdown <= INT64_MAX / 2);
    deltaprof_free(0, block(1));
    deltaprof_free(0, block(2));
}

TEST(a_changed_rate_holds_at_once_for_the_thread_that_changed_it)
{
    tune(0);
    deltaprof_alloc(0, block(1), 1);
    struct dp_counts before = totals();
    conf.heap_rate = 1;
    dp_record_tune(&conf, true);
    dp_heap_rearm();
    deltaprof_alloc(0, block(1), 1);
    assert_int_equal(totals().n, before.n + 1);
    deltaprof_free(0, block(1));
}

/* Objects and bytes of mixed sizes at one rate, over many seeds: the mean error within 4.5 sigma of the variance
 * formula. */
TEST(sampled_totals_are_unbiased_and_frees_subtract_the_same)
{
    static const size_t sizes[] = {0, 8, 24, 100, 1000, 5000, 30000};
    const int seeds = 60, n = 3500, rate = 4096;
    double error_n = 0, error_v = 0, variance_n = 0, variance_v = 0;
    for (int i = 0; i < 7; i++) {
        double size = (double)sizes[i], p = -expm1(-(size + (size == 0)) / rate), w = 1 / p, f = w - floor(w);
        double variance = n / 7.0 * ((1 - p) / p + p * f * (1 - f));
        variance_n += variance;
        variance_v += variance * size * size;
    }
    for (int seed = 0; seed < seeds; seed++) {
        dp_thread_self()->random.state = 12345 + (uint64_t)seed * 77;
        tune(rate);
        struct dp_counts before = totals();
        double bytes = 0;
        for (uintptr_t i = 0; i < (uintptr_t)n; i++) {
            deltaprof_alloc(0, block(i), sizes[i % 7]);
            bytes += (double)sizes[i % 7];
        }
        struct dp_counts held = totals();
        assert_int_equal(held.free_n, before.free_n);
        error_n += (double)(held.n - before.n) - n;
        error_v += (double)(held.v - before.v) - bytes;
        for (uintptr_t i = 0; i < (uintptr_t)n; i++)
            deltaprof_free(0, block(i));
        struct dp_counts after = totals();
        assert_int_equal(after.free_n - before.free_n, held.n - before.n);
        assert_int_equal(after.free_v - before.free_v, held.v - before.v);
    }
    assert_true(fabs(error_n / seeds) < 4.5 * sqrt(variance_n / seeds));
    assert_true(fabs(error_v / seeds) < 4.5 * sqrt(variance_v / seeds));
}

/*
 * Children of one parent, all forked at the same place of its countdown: their sum has the mean and the variance of
 * independent ones. With one countdown for all, its standard deviation is about five times as large.
 */
TEST(siblings_sample_independently)
{
    enum { ROUNDS = 300, CHILDREN = 100, EVENTS = 600, SIZE = 1000, RATE = 512 << 10 };
    double p = -expm1(-(double)SIZE / RATE), w = 1 / p, f = w - floor(w);
    double variance = (double)CHILDREN * EVENTS * ((1 - p) / p + p * f * (1 - f)), sum = 0, squares = 0;
    struct dp_thread *self = dp_thread_self();
    for (uint64_t round = 0; round < ROUNDS; round++) {
        self->random.state = 777 + round * 12345;
        tune(RATE);
        deltaprof_alloc(0, block(0), SIZE);
        deltaprof_free(0, block(0));
        struct dp_thread parent = *self;
        int64_t before = totals().n;
        for (uint64_t child = 0; child < CHILDREN; child++) {
            *self = parent;
            dp_thread_fork_child((1000 + child) << 32 | 1);
            for (uintptr_t i = 0; i < EVENTS; i++) {
                deltaprof_alloc(0, block(i), SIZE);
                deltaprof_free(0, block(i));
            }
        }
        double error = (double)(totals().n - before) - (double)CHILDREN * EVENTS;
        sum += error;
        squares += error * error;
    }
    assert_true(fabs(sum / ROUNDS) < 4.5 * sqrt(variance / ROUNDS));
    assert_true(fabs(squares / ROUNDS / variance - 1) < 4.5 * sqrt(2.0 / ROUNDS));
}

UNIT(start, NULL)
