/* SPDX-License-Identifier: MIT */
/* The sampling of waits and releases: the rates mutex_rate and block_rate, and the statistics of estimates. */
#include "lock_sums.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"

TEST(rates_of_0_record_nothing)
{
    struct deltaprof_wait wait;
    mark();
    tune(0, 1);
    deltaprof_lock_wait_begin(&wait, &locks[8], DELTAPROF_LOCK_MUTEX, NULL);
    assert_false(deltaprof_lock_may_have_waiters(&locks[8]));
    deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
    assert_true(block_ns(0) > 0 && mutex_ns(0) == 0);
    mark();
    tune(1, 0);
    deltaprof_lock_wait_begin(&wait, &locks[8], DELTAPROF_LOCK_MUTEX, NULL);
    deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
    assert_true(block_ns(0) == 0 && mutex_ns(0) > 0);
    mark();
    tune(0, 0);
    deltaprof_lock_wait_begin(&wait, &locks[8], DELTAPROF_LOCK_MUTEX, NULL);
    deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
    assert_true(block_ns(0) == 0 && mutex_ns(0) == 0);
    tune(1, 1);
}

/* p = wait/rate, delay = rate: mean = wait, variance = wait * (rate - wait); counts have mean 1 and at most rate/wait.
 */
TEST(short_waits_are_weighed_without_bias)
{
    static const int64_t waits[] = {1, 7, 100, 999, 3500, 5000, 6000, 9999, 10000, 25000};
    const int64_t rate = 10000;
    const double n_draws = 400000;
    uint64_t seed = 12345;
    for (size_t w = 0; w < sizeof waits / sizeof *waits; w++) {
        double n = 0, delay = 0, wait = (double)waits[w];
        for (int i = 0; i < n_draws; i++) {
            int64_t d, c = dp_wait_weigh(waits[w], rate, dp_hash_mix(seed++), &d);
            n += (double)c;
            delay += c ? (double)d : 0;
        }
        double sigma = wait < rate ? sqrt(wait * ((double)rate - wait) / n_draws) : 0;
        assert_true(fabs(delay / n_draws - wait) <= 4 * sigma + 1e-9);
        double sigma_n = wait < rate ? sqrt((double)rate / wait / n_draws) : 0;
        assert_true(fabs(n / n_draws - 1) <= 4 * sigma_n + 1e-9);
    }
    int64_t delay;
    assert_int_equal(dp_wait_weigh(0, 1, 77, &delay), 1); /* 1ns: every one */
    assert_int_equal(dp_wait_weigh(0, 10, 0, &delay), 0);
}

TEST(one_in_n_releases_is_recorded_n_fold)
{
    const int n = 20000, rate = 10;
    mark();
    tune(rate, 1);
    for (int i = 0; i < n; i++) {
        struct deltaprof_wait wait;
        deltaprof_lock_wait_begin(&wait, &locks[9], DELTAPROF_LOCK_READ, NULL);
        release(&locks[9]);
        deltaprof_lock_wait_end(&wait, DELTAPROF_TIMED_OUT, NULL); /* no hand-over, which is never sampled */
    }
    tune(1, 1);
    int64_t count = contentions(DELTAPROF_LOCK_READ);
    assert_int_equal(count % rate, 0);
    /* n draws of p = 1/rate, each worth rate */
    assert_true(fabs((double)count - n) < 4 * sqrt((double)n * (rate - 1)));
    release(&locks[9]);
}

/* Captures of stacks are limited in time, so their number depends on the time that the loop takes. */
TEST(many_short_debts_are_few_samples_and_the_same_sum)
{
    enum { MANY = 200000, OWED_NS = 20000, SCALE_NS = 1000000, BURST = 1000 };
    struct deltaprof_owed owed = {.ns = {[0] = (int64_t)(uintptr_t)&locks[20], [DELTAPROF_LOCK_WRITE] = OWED_NS}};
    mark();
    tune(1, 1000);
    uint64_t before = dp_stats_read(DP_STAT_SAMPLES);
    int64_t begin_ns = dp_clock_ns();
    for (int i = 0; i < MANY; i++)
        deltaprof_lock_unlock_end(&owed, NULL);
    int64_t took_ns = dp_clock_ns() - begin_ns;
    tune(1, 1);
    double p = (double)OWED_NS / SCALE_NS, sigma = sqrt(MANY * p * (1 - p));
    double most = BURST + 1 + (double)took_ns / SCALE_NS + MANY * p + 5 * sigma;
    assert_true((double)(dp_stats_read(DP_STAT_SAMPLES) - before) <= most);
    struct dp_counts sums = sum(DP_KIND_MUTEX, DELTAPROF_LOCK_WRITE, 0);
    sums.n -= before_mutex[DELTAPROF_LOCK_WRITE].n, sums.v -= before_mutex[DELTAPROF_LOCK_WRITE].v;
    assert_true(fabs((double)sums.v - (double)MANY * OWED_NS) <= 5 * sigma * SCALE_NS);
    assert_true(fabs((double)sums.n - MANY) <= 5 * sigma / p);
    mark();
    for (int i = 0; i < MANY; i++) /* 1ns: every one */
        deltaprof_lock_unlock_end(&owed, NULL);
    sums = sum(DP_KIND_MUTEX, DELTAPROF_LOCK_WRITE, 0);
    assert_int_equal(sums.v - before_mutex[DELTAPROF_LOCK_WRITE].v, (int64_t)MANY * OWED_NS);
    assert_int_equal(sums.n - before_mutex[DELTAPROF_LOCK_WRITE].n, MANY);
}

/*
 * Each owes much more than a millisecond. Beyond the burst each capture overdraws the budget by a millisecond more and
 * makes the next one rarer: n captures stand for n * n / 2 milliseconds that are owed.
 */
TEST(many_debts_of_an_interpreter_s_lock_are_few_samples_and_the_same_sum)
{
    enum { MANY = 20000, OWED_MS = 5, BURST = 1000, GIL = DP_CONTENDED_KINDS - 1 };
    const double all_ms = (double)MANY * OWED_MS, n_over = sqrt(2 * all_ms);
    struct deltaprof_owed owed = {.ns = {[0] = (int64_t)(uintptr_t)&locks[22], [GIL] = OWED_MS * 1000000}};
    mark();
    tune(1, 2);
    uint64_t before = dp_stats_read(DP_STAT_SAMPLES);
    int64_t begin_ns = dp_clock_ns();
    for (int i = 0; i < MANY; i++)
        deltaprof_lock_unlock_end(&owed, NULL);
    double took_ms = (double)(dp_clock_ns() - begin_ns) / 1e6;
    tune(1, 1);
    assert_true((double)(dp_stats_read(DP_STAT_SAMPLES) - before) <= BURST + 1 + took_ms + 2 * n_over);
    struct dp_counts sums = sum(DP_KIND_MUTEX, DELTAPROF_LOCK_GIL, 0);
    double sum_ms = (double)(sums.v - before_mutex[DELTAPROF_LOCK_GIL].v) / 1e6;
    assert_true(fabs(sum_ms - all_ms) <= 5 * sqrt(all_ms * 2 * n_over));
}

/*
 * All of the waiting is [hand-over], whose time is always recorded: so the mutex profile knows the sum. One wait may be
 * much longer than all others, and is recorded SHARE times or not at all: hence the second term of the bound.
 */
TEST(many_waits_for_an_interpreter_s_lock_are_few_samples_and_the_same_sum)
{
    enum { MANY = 100000, SHARE = 64, BURST = 1000 };
    double squares = 0, longest_ns = 0;
    mark();
    tune(1, 2);
    uint64_t before = dp_stats_read(DP_STAT_SAMPLES);
    int64_t begin_ns = dp_clock_ns();
    for (int i = 0; i < MANY; i++) {
        struct deltaprof_wait wait;
        int64_t from_ns = dp_clock_ns();
        deltaprof_lock_wait_begin(&wait, &locks[21], DELTAPROF_LOCK_GIL, NULL);
        deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
        double most_ns = (double)(dp_clock_ns() - from_ns);
        squares += most_ns * most_ns;
        longest_ns = fmax(longest_ns, most_ns);
    }
    double took_ns = (double)(dp_clock_ns() - begin_ns), each = sqrt((double)MANY / SHARE), synthetic = MANY;
    tune(1, 1);
    assert_true((double)(dp_stats_read(DP_STAT_SAMPLES) - before) <=
                synthetic + BURST + 1 + took_ns / 1e6 + MANY / SHARE + 5 * each);
    struct dp_counts sums = sum(DP_KIND_BLOCK, DELTAPROF_LOCK_GIL, 0);
    sums.n -= before_block[DELTAPROF_LOCK_GIL].n, sums.v -= before_block[DELTAPROF_LOCK_GIL].v;
    assert_true(fabs((double)sums.n - MANY) <= 5 * SHARE * each);
    assert_true(fabs((double)(sums.v - mutex_ns(DELTAPROF_LOCK_GIL))) <=
                5 * sqrt(SHARE * squares) + SHARE * longest_ns);
}

UNIT(start, NULL)
