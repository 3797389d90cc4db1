/* SPDX-License-Identifier: MIT */
/* Changes that come while another thread changes the ranges: here the test has the lock. */
#include "support/unit.h"

#include "host/heap/mappings.c"

enum { PAGE = 4096 };

static const uintptr_t base = (uintptr_t)1 << 40;
static dp_record_id record;

static int start(void **state)
{
    dp_frame_id frame = 100;
    struct dp_stack stack = {.hash = dp_stack_hash(&frame, 1), .depth = 1, .frames = &frame};
    dp_mem_reserve(8 << 20);
    int err = dp_table_init(4 << 20, 0);
    if (!err)
        err = dp_heap_mappings_init(2 * QUEUE);
    dp_record_open(dp_heap_inherited_begin);
    record = dp_table_intern(DP_KIND_HEAP, 1, 0, &stack);
    return err || !record;
}

static void change_pages(enum dp_heap_mapping_change change, uintptr_t first, uintptr_t n, dp_record_id of)
{
    dp_heap_mappings_change(change, base + first * PAGE, base + (first + n) * PAGE, of);
}

static int64_t pages_in_use(void)
{
    struct dp_counts counts;
    dp_table_read(DP_KIND_HEAP, record, &counts);
    return (counts.v - counts.free_v) / PAGE;
}

static size_t n_ranges(void)
{
    struct dp_heap_mapped_range ranges[4];
    return dp_heap_mappings_copy(ranges, 4);
}

TEST(a_change_waits_for_the_lock)
{
    assert_true(lock());
    change_pages(DP_MAPPING_ADD, 0, 3, record);
    assert_int_equal(pages_in_use(), 0);
    assert_int_equal(n_ranges(), 0);
    assert_false(dp_heap_mappings_are_reserved(base, base + PAGE));
    unlock();
    assert_int_equal(n_ranges(), 1); /* a reader makes what waits */
    assert_int_equal(pages_in_use(), 3);
    change_pages(DP_MAPPING_REMOVE, 0, 3, 0);
    assert_int_equal(pages_in_use(), 0);
}

TEST(a_reader_of_reservations_makes_what_waits)
{
    assert_true(lock());
    change_pages(DP_MAPPING_RESERVE, 0, 2, 0);
    unlock();
    assert_true(dp_heap_mappings_are_reserved(base + PAGE, base + 2 * PAGE));
    assert_false(dp_heap_mappings_are_reserved(base + 2 * PAGE, base + 3 * PAGE));
    assert_true(lock());
    change_pages(DP_MAPPING_REMOVE, 0, 2, 0);
    unlock();
    assert_false(dp_heap_mappings_are_reserved(base, base + 2 * PAGE));
}

TEST(waiting_changes_come_before_a_new_one)
{
    assert_true(lock());
    change_pages(DP_MAPPING_ADD, 0, 4, record);
    change_pages(DP_MAPPING_REMOVE, 0, 1, 0);
    unlock();
    change_pages(DP_MAPPING_REMOVE, 1, 2, 0);
    assert_int_equal(pages_in_use(), 1);
    change_pages(DP_MAPPING_REMOVE, 0, 4, 0);
    assert_int_equal(pages_in_use(), 0);
}

TEST(a_full_queue_loses_only_what_is_too_much)
{
    for (int again = 0; again < 3; again++) { /* each cell is used again */
        uint64_t lost = dp_stats_read(DP_STAT_MAPS_LOST);
        assert_true(lock());
        for (uintptr_t i = 0; i < QUEUE; i++)
            change_pages(DP_MAPPING_ADD, 2 * i, 1, record);
        assert_int_equal(dp_stats_read(DP_STAT_MAPS_LOST), lost);
        for (uintptr_t i = QUEUE; i < QUEUE + 5; i++)
            change_pages(DP_MAPPING_ADD, 2 * i, 1, record);
        assert_int_equal(dp_stats_read(DP_STAT_MAPS_LOST), lost + 5);
        unlock();
        change_pages(DP_MAPPING_ADD, 2 * QUEUE, 1, record);
        assert_int_equal(pages_in_use(), QUEUE + 1);
        change_pages(DP_MAPPING_REMOVE, 0, 2 * QUEUE + 1, 0);
        assert_int_equal(pages_in_use(), 0);
        change_pages(DP_MAPPING_ADD, 0, 1 + (uintptr_t)again, record); /* the next round begins at another cell */
        change_pages(DP_MAPPING_REMOVE, 0, 4, 0);
    }
}

TEST(a_forked_child_begins_without_what_waited)
{
    change_pages(DP_MAPPING_ADD, 0, 2, record);
    assert_true(lock());
    change_pages(DP_MAPPING_REMOVE, 0, 2, 0);
    dp_heap_mappings_fork_child();
    assert_true(lock()); /* which the parent's other thread had */
    unlock();
    change_pages(DP_MAPPING_ADD, 8, 1, record);
    assert_int_equal(n_ranges(), 1);
}

UNIT(start, NULL)
