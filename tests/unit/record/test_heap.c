/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "record/heap.h"
#include "record/record.h"
#include "store/heaps.h"
#include "store/inherited.h"
#include "store/store.h"
#include "store/table.h"
#include "store/thread.h"
#include "support/totals.h"

/* Blocks are numbers here: no memory stands behind them. */
static void *block(uintptr_t i)
{
    return (void *)(0x10000000 + i * 64);
}

static struct dp_config conf;

static void tune(int64_t rate)
{
    conf.heap_rate = rate;
    dp_record_tune(&conf, true);
    deltaprof_guard_enter();
    deltaprof_guard_reset();
}

static int start(void **state)
{
    dp_config_init(&conf);
    return dp_record_init(&conf);
}

static void at_rate_1_every_block_is_counted_exactly(void **state)
{
    tune(1);
    struct dp_counts before = totals();
    for (uintptr_t i = 0; i < 1000; i++)
        deltaprof_alloc(0, block(i), i);
    struct dp_counts held = totals();
    assert_int_equal(held.n - before.n, 1000);
    assert_int_equal(held.v - before.v, 999 * 1000 / 2);
    assert_int_equal(held.free_n, before.free_n);
    for (uintptr_t i = 0; i < 1000; i++)
        deltaprof_free(0, block(i));
    struct dp_counts after = totals();
    assert_int_equal(after.free_n - before.free_n, 1000);
    assert_int_equal(after.free_v - before.free_v, 999 * 1000 / 2);
    deltaprof_free(0, block(1)); /* unknown by now: no event */
    assert_int_equal(totals().free_n, after.free_n);
}

static void nothing_is_sampled_under_the_guard_but_frees_count(void **state)
{
    tune(1);
    deltaprof_alloc(0, block(1), 10);
    struct dp_counts before = totals();
    int64_t kept = deltaprof_guard_enter();
    deltaprof_alloc(0, block(2), 10);
    deltaprof_alloc(0, block(3), SIZE_MAX);
    deltaprof_free(0, block(1));
    deltaprof_guard_exit(kept);
    struct dp_counts after = totals();
    assert_int_equal(after.n, before.n);
    assert_int_equal(after.free_n, before.free_n + 1);
    deltaprof_alloc(0, block(2), 10);
    assert_int_equal(totals().n, before.n + 1);
    deltaprof_free(0, block(2));
}

static void a_failed_call_is_no_event_and_the_word_is_set_again(void **state)
{
    tune(1);
    struct dp_counts before = totals();
    int64_t rest;
    struct deltaprof_sample sample;
    struct deltaprof_site site = {0};
    assert_true(deltaprof_countdown_subtract(10, &rest));
    deltaprof_sample_begin(&sample, 0, 10);
    assert_true(deltaprof_is_guarded());
    deltaprof_sample_end(&sample, NULL, &site);
    assert_int_equal(deltaprof_thread.countdown, 1);
    assert_int_equal(totals().n, before.n);
}

/* operator new, which calls malloc, which fails; then its exception leaves the hook, whose end is never called. */
static void a_request_that_cannot_be_met_leaves_no_guard(void **state)
{
    static const size_t sizes[] = {(size_t)1 << 48, (size_t)1 << 62, PTRDIFF_MAX, SIZE_MAX};
    struct deltaprof_site site = {0};
    for (int i = 0; i < 4; i++) {
        tune(1);
        struct deltaprof_sample outer, inner;
        int64_t rest;
        assert_true(deltaprof_countdown_subtract(sizes[i], &rest));
        deltaprof_sample_begin(&outer, 0, sizes[i]);
        assert_true(deltaprof_countdown_subtract(sizes[i], &rest));
        deltaprof_sample_begin(&inner, 0, sizes[i]);
        deltaprof_sample_end(&inner, NULL, &site);
        deltaprof_guard_reset();
        struct dp_counts before = totals();
        deltaprof_alloc(0, block(2), 10);
        assert_int_equal(totals().n, before.n + 1);
        deltaprof_free(0, block(2));
    }
}

static void a_realloc_is_a_free_and_an_alloc_only_if_it_was_done(void **state)
{
    tune(1);
    struct deltaprof_sample sample;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    deltaprof_alloc(0, block(1), 100);
    struct dp_counts before = totals();

    deltaprof_realloc_begin(&sample, 0, block(1), 1000); /* fails: the old block lives on */
    deltaprof_realloc_end(&sample, false, NULL, &site);
    struct dp_counts failed = totals();
    assert_memory_equal(&failed, &before, sizeof before);

    deltaprof_realloc_begin(&sample, 0, block(1), 1000);
    /* while it moves, somebody else gets the old place */
    deltaprof_guard_reset();
    deltaprof_alloc(0, block(1), 7);
    deltaprof_realloc_end(&sample, true, block(2), &site);
    struct dp_counts moved = totals();
    assert_int_equal(moved.n, before.n + 2);
    assert_int_equal(moved.v, before.v + 1007);
    assert_int_equal(moved.free_v, before.free_v + 100);

    deltaprof_realloc_begin(&sample, 0, block(2), 0); /* freed */
    deltaprof_realloc_end(&sample, true, NULL, &site);
    assert_int_equal(totals().free_v, before.free_v + 1100);
    deltaprof_free(0, block(1));
    assert_int_equal(totals().free_v, before.free_v + 1107);
}

static void a_block_seen_twice_replaces_the_one_whose_free_was_missed(void **state)
{
    tune(1);
    deltaprof_alloc(0, block(5), 100);
    struct dp_counts before = totals();
    deltaprof_alloc(0, block(5), 30);
    struct dp_counts after = totals();
    assert_int_equal(after.n, before.n + 1);
    assert_int_equal(after.free_v, before.free_v + 100);
    deltaprof_free(0, block(5));
    assert_int_equal(totals().free_v, before.free_v + 130);
}

static void heaps_are_apart_and_have_names(void **state)
{
    tune(1);
    uint32_t lua = deltaprof_heap_register("lua"), other = deltaprof_heap_register("other");
    assert_int_equal(deltaprof_heap_register("lua"), lua);
    assert_int_not_equal(lua, other);
    assert_string_equal(dp_heap_name(lua), "lua");
    assert_null(dp_heap_name(0));
    assert_null(dp_heap_name(other + 1));
    struct dp_counts before = totals();
    deltaprof_alloc(0, block(1), 1);
    deltaprof_alloc(lua, block(1), 2);
    deltaprof_alloc(other, block(1), 4);
    deltaprof_free(lua, block(1));
    assert_int_equal(totals().free_v, before.free_v + 2);
    deltaprof_free(0, block(1));
    assert_int_equal(totals().free_v, before.free_v + 3);
    deltaprof_free(other, block(1));
    assert_int_equal(totals().free_v, before.free_v + 7);
}

static void all_blocks_of_a_heap_are_forgotten_at_once(void **state)
{
    tune(1);
    uint32_t arenas = deltaprof_heap_register("arenas"), other = deltaprof_heap_register("other");
    struct dp_counts before = totals();
    for (uintptr_t i = 0; i < 1000; i++) {
        deltaprof_alloc(arenas, block(i), 3);
        deltaprof_alloc(other, block(i), 5);
    }
    deltaprof_heap_forget_all(arenas);
    assert_int_equal(totals().free_v, before.free_v + 3000);
    deltaprof_heap_forget_all(arenas);
    deltaprof_free(arenas, block(7));
    assert_int_equal(totals().free_v, before.free_v + 3000);
    deltaprof_free(other, block(7));
    assert_int_equal(totals().free_v, before.free_v + 3005);
    deltaprof_heap_forget_all(other);
    assert_int_equal(totals().free_v, before.free_v + 8000);
}

static void a_profiler_that_is_off_looks_again_every_mebibyte(void **state)
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

static void bytes_are_counted_without_a_sample(void **state)
{
    tune(0);
    uint64_t before = dp_record_bytes_seen();
    for (int i = 0; i < 1000; i++)
        deltaprof_alloc(0, block(1), 100);
    dp_record_flush_bytes();
    dp_record_flush_bytes();
    assert_int_equal(dp_record_bytes_seen() - before, 100000);
    for (int i = 0; i < 100000; i++)
        deltaprof_alloc(0, block(1), 100); /* over nine looks at a profiler that is off */
    dp_record_flush_bytes();
    assert_int_equal(dp_record_bytes_seen() - before, 10100000);
    tune(100);
    before = dp_record_bytes_seen();
    for (int i = 0; i < 10000; i++) {
        deltaprof_alloc(0, block(1), 77);
        deltaprof_free(0, block(1));
    }
    dp_record_flush_bytes();
    assert_int_equal(dp_record_bytes_seen() - before, 770000);
    tune(1);
    before = dp_record_bytes_seen();
    for (size_t n = 0; n < 100; n++) {
        deltaprof_alloc(0, block(1), n);
        deltaprof_free(0, block(1));
    }
    assert_int_equal(dp_record_bytes_seen() - before, 4950);
}

static void where_every_event_is_a_sample_a_new_rate_holds_from_the_next_on(void **state)
{
    tune(0);
    deltaprof_alloc(0, block(1), 1);
    tune(1);
    deltaprof_alloc(0, block(1), 1); /* the distance is drawn at 1 now */
    deltaprof_free(0, block(1));
    struct dp_counts before = totals();
    uint64_t bytes = dp_record_bytes_seen();
    conf.heap_rate = 0; /* as another thread would: this one is not told */
    dp_record_tune(&conf, true);
    deltaprof_alloc(0, block(1), 100);
    assert_int_equal(totals().n, before.n);
    assert_int_equal(deltaprof_thread.countdown, (1 << 20) + 1);
    assert_int_equal(dp_record_bytes_seen() - bytes, 100);
    tune(1);
    deltaprof_alloc(0, block(1), 0);
    deltaprof_free(0, block(1));
    before = totals();
    conf.heap_rate = 1 << 30;
    dp_record_tune(&conf, true);
    deltaprof_alloc(0, block(1), 100); /* drawn at 1, and stands for itself */
    deltaprof_alloc(0, block(2), 100);
    assert_int_equal(totals().n, before.n + 1);
    assert_int_equal(totals().v, before.v + 100);
    assert_true(deltaprof_thread.countdown >= 1 && deltaprof_thread.countdown <= INT64_MAX / 2);
    deltaprof_free(0, block(1));
    deltaprof_free(0, block(2));
}

static void a_changed_rate_holds_at_once_for_the_thread_that_changed_it(void **state)
{
    tune(0);
    deltaprof_alloc(0, block(1), 1);
    struct dp_counts before = totals();
    conf.heap_rate = 1;
    dp_record_tune(&conf, true);
    dp_record_rearm();
    deltaprof_alloc(0, block(1), 1);
    assert_int_equal(totals().n, before.n + 1);
    deltaprof_free(0, block(1));
}

/* Objects and bytes of mixed sizes at one rate, over many seeds: the mean error within 4.5 sigma of the variance
 * formula. */
static void sampled_totals_are_unbiased_and_frees_give_back_what_they_took(void **state)
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
static void siblings_sample_independently(void **state)
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

static void a_block_that_the_full_set_has_no_room_for_is_freed_at_once(void **state)
{
    tune(1);
    struct dp_counts before = totals();
    uint64_t full = dp_stats_read(DP_STAT_LIVE_FULL);
    const uintptr_t n = 1000000;
    for (uintptr_t i = 0; i < n; i++)
        deltaprof_alloc(0, block(i), 3);
    full = dp_stats_read(DP_STAT_LIVE_FULL) - full;
    assert_true(full > 0 && full < n);
    struct dp_counts held = totals();
    assert_int_equal(held.n - before.n, n);
    assert_int_equal(held.v - before.v, 3 * n);
    assert_int_equal(held.free_n - before.free_n, full);
    struct deltaprof_stats stats = {0};
    dp_record_stats(&stats);
    assert_int_equal(stats.live, n - full);
    for (uintptr_t i = 0; i < n; i++)
        deltaprof_free(0, block(i));
    struct dp_counts after = totals();
    assert_int_equal(after.n - after.free_n, 0);
    assert_int_equal(after.v - after.free_v, 0);
    dp_record_stats(&stats);
    assert_int_equal(stats.live, 0);
}

static void in_a_child_the_counters_at_the_fork_are_zero(void **state)
{
    tune(1);
    deltaprof_alloc(0, block(1), 100);
    struct dp_counts at_fork = totals();
    int64_t n, v, base_n = 0, base_v = 0;
    dp_record_fork_prepare();
    dp_record_fork_child();
    assert_int_equal(dp_record_epoch(), 1);
    deltaprof_alloc(0, block(2), 10); /* finds its zero first */
    deltaprof_free(0, block(1));
    assert_true(dp_record_fork_copy_zero());
    for (uint32_t id = 0; id < dp_table_count(DP_KIND_HEAP); id++) {
        dp_record_fork_base(DP_KIND_HEAP, id, &n, &v);
        base_n += n, base_v += v;
    }
    assert_int_equal(base_n, at_fork.n);
    assert_int_equal(base_v, at_fork.v);
    assert_int_equal(totals().n - base_n, 1);
    assert_int_equal(totals().v - base_v, 10);
    struct deltaprof_stats stats = {0};
    dp_record_stats(&stats);
    assert_int_equal(stats.samples, 1);
    deltaprof_free(0, block(2));
}

struct in_use {
    int64_t n, v;
};

static struct in_use inherited(void)
{
    struct in_use sum = {0};
    for (uint32_t id = 0; id < dp_table_count(DP_KIND_HEAP); id++) {
        struct dp_counts counts;
        int64_t n, v;
        dp_table_read(DP_KIND_HEAP, id, &counts);
        dp_inherited_read(id, &counts, &n, &v);
        assert_true(n >= 0 && v >= 0 && n <= counts.n - counts.free_n && v <= counts.v - counts.free_v);
        sum.n += n, sum.v += v;
    }
    return sum;
}

static void do_fork(void)
{
    dp_record_fork_prepare();
    dp_record_fork_child();
    deltaprof_guard_reset();
}

static void what_a_child_inherited_is_told_from_its_own(void **state)
{
    tune(1);
    for (uintptr_t i = 0; i < 10; i++)
        deltaprof_alloc(0, block(i), 100);
    do_fork();
    deltaprof_free(0, block(0)); /* before the child has found its zero */
    for (uintptr_t i = 10; i < 15; i++)
        deltaprof_alloc(0, block(i), 7);
    struct in_use at_first = inherited();
    deltaprof_free(0, block(1));
    assert_int_equal(inherited().n, at_first.n - 1);
    assert_int_equal(inherited().v, at_first.v - 100);
    deltaprof_free(0, block(10)); /* an own block changes nothing of it */
    assert_int_equal(inherited().n, at_first.n - 1);
    do_fork();
    deltaprof_alloc(0, block(15), 3); /* a grandchild inherited the child's as well */
    assert_int_equal(inherited().n, at_first.n - 1 + 4);
    assert_int_equal(inherited().v, at_first.v - 100 + 4 * 7);
    deltaprof_free(0, block(15));
    for (uintptr_t i = 2; i < 10; i++)
        deltaprof_free(0, block(i));
    for (uintptr_t i = 11; i < 15; i++)
        deltaprof_free(0, block(i));
    assert_int_equal(inherited().n, at_first.n - 9);
    assert_int_equal(inherited().v, at_first.v - 900);
}

static void errno_is_kept(void **state)
{
    tune(1);
    errno = 42;
    deltaprof_alloc(0, block(9), 100);
    deltaprof_free(0, block(9));
    deltaprof_free(0, block(9));
    deltaprof_guard_reset();
    assert_int_equal(errno, 42);
}

static void watched_addresses_are_always_asked_about(void **state)
{
    static char arena[4096];
    deltaprof_filter_mark(arena, sizeof arena);
    for (size_t i = 0; i < sizeof arena; i += 8)
        assert_true(deltaprof_may_be_live(0, arena + i));
    deltaprof_free_sampled(0, arena + 16);
    assert_true(deltaprof_may_be_live(0, arena + 16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_rate_1_every_block_is_counted_exactly),
        cmocka_unit_test(nothing_is_sampled_under_the_guard_but_frees_count),
        cmocka_unit_test(a_failed_call_is_no_event_and_the_word_is_set_again),
        cmocka_unit_test(a_request_that_cannot_be_met_leaves_no_guard),
        cmocka_unit_test(a_realloc_is_a_free_and_an_alloc_only_if_it_was_done),
        cmocka_unit_test(a_block_seen_twice_replaces_the_one_whose_free_was_missed),
        cmocka_unit_test(heaps_are_apart_and_have_names),
        cmocka_unit_test(all_blocks_of_a_heap_are_forgotten_at_once),
        cmocka_unit_test(a_profiler_that_is_off_looks_again_every_mebibyte),
        cmocka_unit_test(bytes_are_counted_without_a_sample),
        cmocka_unit_test(where_every_event_is_a_sample_a_new_rate_holds_from_the_next_on),
        cmocka_unit_test(a_changed_rate_holds_at_once_for_the_thread_that_changed_it),
        cmocka_unit_test(sampled_totals_are_unbiased_and_frees_give_back_what_they_took),
        cmocka_unit_test(siblings_sample_independently),
        cmocka_unit_test(a_block_that_the_full_set_has_no_room_for_is_freed_at_once),
        cmocka_unit_test(in_a_child_the_counters_at_the_fork_are_zero),
        cmocka_unit_test(what_a_child_inherited_is_told_from_its_own),
        cmocka_unit_test(errno_is_kept),
        cmocka_unit_test(watched_addresses_are_always_asked_about),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
