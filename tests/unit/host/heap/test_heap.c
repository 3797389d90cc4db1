/* SPDX-License-Identifier: MIT */
/* The events of a heap: allocations, frees, reallocations, heaps, forks. Every event is sampled. */
#include "heap_blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "host/table/heaps.h"
#include "host/heap/inherited.h"
#include "host/table/record.h"
#include "host/table/table.h"

#include <deltaprof/hooks.h>

TEST(at_rate_1_every_block_is_counted_exactly)
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

TEST(nothing_is_sampled_under_the_guard_but_frees_count)
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

TEST(a_failed_call_is_no_event_and_the_word_is_set_again)
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

/* operator new calls malloc, which fails. Then the exception leaves the hook of operator new, whose end is never
 * called. */
TEST(a_request_that_cannot_be_met_leaves_no_guard)
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

TEST(a_realloc_is_a_free_and_an_alloc_only_if_it_was_done)
{
    tune(1);
    struct deltaprof_sample sample;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    deltaprof_alloc(0, block(1), 100);
    struct dp_counts before = totals();

    deltaprof_realloc_begin(&sample, 0, block(1), 1000); /* fails: the old block stays */
    deltaprof_realloc_end(&sample, false, NULL, &site);
    struct dp_counts failed = totals();
    assert_memory_equal(&failed, &before, sizeof before);

    deltaprof_realloc_begin(&sample, 0, block(1), 1000);
    /* while it moves, another thread gets the old place */
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

TEST(a_block_seen_twice_replaces_the_one_whose_free_was_missed)
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

TEST(heaps_are_apart_and_have_names)
{
    tune(1);
    uint32_t lua = deltaprof_heap_register("lua"), other = deltaprof_heap_register("other");
    assert_int_equal(deltaprof_heap_register("lua"), lua);
    assert_int_not_equal(lua, other);
    assert_string_equal(dp_table_heap_name(lua), "lua");
    assert_null(dp_table_heap_name(0));
    assert_null(dp_table_heap_name(other + 1));
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

TEST(all_blocks_of_a_heap_are_forgotten_at_once)
{
    tune(1);
    uint32_t arenas = deltaprof_heap_register("arenas"), other = deltaprof_heap_register("other");
    struct dp_counts before = totals();
    for (uintptr_t i = 0; i < 1000; i++) {
        deltaprof_alloc(arenas, block(i), 3);
        deltaprof_alloc(other, block(i), 5);
    }
    deltaprof_heap_free_all(arenas);
    assert_int_equal(totals().free_v, before.free_v + 3000);
    deltaprof_heap_free_all(arenas);
    deltaprof_free(arenas, block(7));
    assert_int_equal(totals().free_v, before.free_v + 3000);
    deltaprof_free(other, block(7));
    assert_int_equal(totals().free_v, before.free_v + 3005);
    deltaprof_heap_free_all(other);
    assert_int_equal(totals().free_v, before.free_v + 8000);
}

TEST(a_block_that_the_full_set_has_no_room_for_is_freed_at_once)
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

TEST(in_a_child_the_counters_at_the_fork_are_zero)
{
    tune(1);
    deltaprof_alloc(0, block(1), 100);
    struct dp_counts at_fork = totals();
    int64_t n, v, base_n = 0, base_v = 0;
    dp_record_fork_prepare();
    dp_record_fork_child();
    assert_int_equal(dp_record_epoch(), 1);
    deltaprof_alloc(0, block(2), 10); /* saves the counters at the fork first */
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
        dp_heap_inherited_read(id, &counts, &n, &v);
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

TEST(inherited_memory_is_separate_from_a_childs_own)
{
    tune(1);
    for (uintptr_t i = 0; i < 10; i++)
        deltaprof_alloc(0, block(i), 100);
    do_fork();
    deltaprof_free(0, block(0)); /* before the child has saved the counters at the fork */
    for (uintptr_t i = 10; i < 15; i++)
        deltaprof_alloc(0, block(i), 7);
    struct in_use at_first = inherited();
    deltaprof_free(0, block(1));
    assert_int_equal(inherited().n, at_first.n - 1);
    assert_int_equal(inherited().v, at_first.v - 100);
    deltaprof_free(0, block(10)); /* the child's own block: inherited memory does not change */
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

TEST(errno_is_kept)
{
    tune(1);
    errno = 42;
    deltaprof_alloc(0, block(9), 100);
    deltaprof_free(0, block(9));
    deltaprof_free(0, block(9));
    deltaprof_guard_reset();
    assert_int_equal(errno, 42);
}

TEST(marked_addresses_are_always_possibly_live)
{
    static char arena[4096];
    deltaprof_filter_mark(arena, sizeof arena);
    for (size_t i = 0; i < sizeof arena; i += 8)
        assert_true(deltaprof_may_be_live(0, arena + i));
    deltaprof_free_sampled(0, arena + 16);
    assert_true(deltaprof_may_be_live(0, arena + 16));
}

UNIT(start, NULL)
