/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <pthread.h>

#include "base/clock.h"
#include "base/mem.h"
#include "host/heap/peak.h"
#include "host/heap/peak_copy.h"

#define MIB ((int64_t)1 << 20)

static _Atomic int n_reached;

static void reached(void)
{
    dp_add_relaxed(&n_reached, 1);
}

static int again(void **state)
{
    dp_heap_peak_watch(INT64_MAX, reached);
    for (unsigned shard = 0; shard < DP_SHARDS; shard++)
        dp_heap_peak_subtract(shard, dp_load_relaxed(&dp_tallies[shard].at[DP_TALLY_INUSE]));
    dp_store_relaxed(&n_reached, 0);
    return 0;
}

/* Waits for the coarse clock's next tick: a look is due. */
static void next_look(void)
{
    int64_t now = dp_clock_coarse_ns();
    while (dp_clock_coarse_ns() == now)
        continue;
}

/* A burst that is over within a look of the coarse clock, beside many others that were lower. */
TEST_WITH(again, NULL, the_records_are_copied_at_the_highest_burst)
{
    static bool begun;
    int64_t wall_ns, objects, bytes;
    if (!begun)
        assert_int_equal(dp_mem_reserve(1 << 20), 0), dp_table_init(1 << 19, 0), dp_heap_peak_copy_init(1 << 16);
    begun = true;
    dp_frame_id frames[2] = {DP_FRAME_OTHER, DP_FRAME_OTHER};
    struct dp_stack stacks[2];
    dp_record_id records[2];
    for (uint32_t i = 0; i < 2; i++) {
        stacks[i] = (struct dp_stack){.frames = frames, .depth = i + 1, .hash = dp_stack_hash(frames, i + 1)};
        records[i] = dp_table_intern(DP_KIND_HEAP, 0, 0, &stacks[i]);
    }
    assert_false(dp_heap_peak_copy_begin());
    for (int burst = 0; burst < 100; burst++) {
        int n = burst == 50 ? 90 : 60;
        for (int i = 0; i < n; i++) {
            dp_table_add(DP_KIND_HEAP, records[i % 3 != 0], 1, MIB);
            dp_heap_peak_add(i % 8, MIB);
        }
        for (int i = 0; i < n; i++) {
            dp_table_add_free(DP_KIND_HEAP, records[i % 3 != 0], 1, MIB);
            dp_heap_peak_subtract(i % 8, MIB);
        }
    }
    int64_t copied = dp_heap_peak_copy_bytes(&wall_ns);
    assert_true(copied > 81 * MIB && copied <= 90 * MIB);
    assert_true(dp_heap_peak_copy_begin());
    assert_int_equal(dp_heap_peak_copy_make(), 0); /* not while it is read */
    dp_heap_peak_copy_read(records[0], &objects, &bytes);
    assert_int_equal(bytes, objects * MIB);
    assert_true(bytes > 26 * MIB && bytes <= 30 * MIB);
    dp_heap_peak_copy_read(records[1] + 1, &objects, &bytes);
    assert_int_equal(objects | bytes, 0);
    dp_heap_peak_copy_end();
    dp_heap_peak_fork_child();
    assert_int_equal(dp_heap_peak_copy_bytes(&wall_ns), 0);
    assert_false(dp_heap_peak_copy_begin());
}

/* However short it was, and without a threshold. */
TEST_WITH(again, NULL, the_most_in_use_is_kept)
{
    int64_t wall_ns, before = dp_heap_peak_most(&wall_ns) / MIB + 1, now_ns = dp_clock_wall_coarse_ns();
    for (int64_t i = 0; i < before + 50; i++)
        dp_heap_peak_add(5, MIB);
    for (int64_t i = 0; i < before + 50; i++)
        dp_heap_peak_subtract(5, MIB);
    for (int i = 0; i < 20; i++)
        dp_heap_peak_add(5, MIB);
    assert_int_equal(dp_heap_peak_most(&wall_ns), (before + 50) * MIB);
    assert_true(wall_ns >= now_ns);
}

TEST_WITH(again, NULL, what_goes_out_of_use_is_taken_off)
{
    int64_t before = dp_heap_peak_in_use();
    dp_heap_peak_add(1, 3 * MIB);
    dp_heap_peak_add(2, 4 * MIB);
    assert_int_equal(dp_heap_peak_in_use() - before, 7 * MIB);
    dp_heap_peak_subtract(2, 3 * MIB); /* another thread frees it */
    assert_int_equal(dp_heap_peak_in_use() - before, 4 * MIB);
}

TEST_WITH(again, NULL, a_threshold_is_told_of_once)
{
    dp_heap_peak_watch(100 * MIB, reached);
    for (int i = 0; i < 99; i++) {
        next_look();
        dp_heap_peak_add(0, MIB);
    }
    assert_int_equal(n_reached, 0);
    for (int i = 0; i < 20; i++) {
        next_look();
        dp_heap_peak_add(0, MIB);
    }
    assert_int_equal(n_reached, 1);
    dp_heap_peak_watch(110 * MIB, reached); /* it is above that already */
    assert_int_equal(n_reached, 2);
}

TEST_WITH(again, NULL, a_peak_over_many_shards_is_seen)
{
    dp_heap_peak_watch(64 * MIB, reached);
    for (unsigned i = 0; i < 80; i++) {
        next_look();
        dp_heap_peak_add(i % 16, MIB);
    }
    assert_int_equal(n_reached, 1);
}

TEST_WITH(again, NULL, without_a_threshold_nothing_is_told)
{
    next_look();
    dp_heap_peak_add(0, INT64_C(1) << 40);
    assert_int_equal(n_reached, 0);
}

static pthread_barrier_t ready;

static void *grows(void *arg)
{
    pthread_barrier_wait(&ready);
    for (int i = 0; i < 2000; i++)
        dp_heap_peak_add((unsigned)(uintptr_t)arg, MIB / 16);
    return NULL;
}

TEST_WITH(again, NULL, blocks_that_come_and_go_reach_nothing)
{
    dp_heap_peak_watch(10 * MIB, reached);
    for (int i = 0; i < 1000; i++) {
        dp_heap_peak_add(3, 4 * MIB);
        dp_heap_peak_subtract(3, 4 * MIB);
    }
    next_look();
    dp_heap_peak_add(3, 4 * MIB);
    assert_int_equal(n_reached, 0);
}

TEST_WITH(again, NULL, threads_that_reach_it_together_tell_it_once)
{
    pthread_t threads[4];
    dp_heap_peak_watch(8 * MIB, reached);
    pthread_barrier_init(&ready, NULL, 4);
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, grows, (void *)(DP_SHARDS_OWN + i));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    next_look();
    dp_heap_peak_add(0, MIB); /* looks for certain: all of them may have looked in one tick of the clock */
    assert_int_equal(n_reached, 1);
}

UNIT(NULL, NULL)
