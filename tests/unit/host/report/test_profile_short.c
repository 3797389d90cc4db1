/* SPDX-License-Identifier: MIT */
/* Profiles that are written while memory is short: the smallest rows are summed up, and nothing is lost. */
#include "support/unit.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "host/report/write_buffers.h"
#include "support/consumers.h"

enum { N = 3000, MANY = 150000, HEAVY = N / 2, HEAVY_OBJECTS = 1000000, AMPLE = 256 << 20, TAKEN_BYTES = 1 << 20 };

static int64_t all_objects(void)
{
    int64_t sum = HEAVY_OBJECTS;
    for (int i = 0; i < N; i++)
        sum += 1 + i % 50;
    return sum;
}

static void allocate_all(void)
{
    for (unsigned i = 0; i < N; i++)
        allocate(20000 + i, 1 + i % 50);
    allocate(20000 + HEAVY, HEAVY_OBJECTS);
}

static void release_all(void)
{
    for (unsigned i = 0; i < N; i++)
        release(20000 + i, 1 + i % 50);
    release(20000 + HEAVY, HEAVY_OBJECTS);
}

/* With n_bytes left, and no buffers from an earlier write. The bytes that the sink takes are no part of them. */
static int write_with(struct dp_consumer *c, size_t n_bytes)
{
    dp_report_write_buffers_put(dp_report_write_buffers_get(), 0);
    assert_non_null(dp_vec_room(&taken.bytes, TAKEN_BYTES));
    dp_mem_cap(dp_mem_used() + n_bytes);
    int err = dp_consumer_write(c, 0, take, &taken, NULL);
    dp_mem_cap(AMPLE);
    if (!err)
        read_taken(&taken, &said);
    else
        dp_vec_clear(&taken.bytes);
    return err;
}

static void sums_are(int64_t n, int64_t inuse)
{
    assert_int_equal(said.sums[0], n);
    assert_int_equal(said.sums[1], 10 * n);
    assert_int_equal(said.sums[2], inuse);
    assert_int_equal(said.sums[3], 10 * inuse);
}

static const struct said_row *overflow(void)
{
    for (size_t i = 0; i < said.n_rows && i < SAID_ROWS_MAX; i++)
        if (!strcmp(said.rows[i].leaf_name, "[overflow]"))
            return &said.rows[i];
    return NULL;
}

/* The first amount with which a profile can be written is found by trying; each further one must do, too. */
TEST(the_smallest_rows_are_summed_up)
{
    size_t n_short = 0, n_written = 0;
    for (size_t n_bytes = 400 << 10; n_bytes < 1600 << 10; n_bytes += 40 << 10) {
        struct dp_consumer *c = new_consumer();
        uint64_t before = dp_stats_read(DP_STAT_ROWS_SUMMED);
        allocate_all();
        int err = write_with(c, n_bytes);
        assert_true(err == 0 || (err == -12 && !n_written));
        if (err == 0) {
            sums_are(all_objects(), all_objects());
            n_written++;
        }
        if (err == 0 && said.n_rows < N) {
            const struct said_row *heavy = row_of(&said, PC(20000 + HEAVY));
            assert_non_null(overflow());
            assert_true(said.n_rows == 1 || (heavy && heavy->values[0] == HEAVY_OBJECTS + 1 + HEAVY % 50));
            assert_true(dp_stats_read(DP_STAT_ROWS_SUMMED) >= before + N - said.n_rows);
            n_short++;
        }
        if (err == 0)
            assert_int_equal(dp_consumer_commit(c), 0);
        release_all();
        write_and_commit(c);
        sums_are(err ? all_objects() : 0, 0);
        dp_consumer_free(c);
    }
    assert_true(n_short >= 2 && n_written > n_short);
}

/* It may be too little for rows of an unusual size. */
TEST(rows_stay_in_order_where_memory_suffices_for_usual_ones)
{
    struct dp_consumer *c = new_consumer();
    allocate_all();
    assert_int_equal(write_with(c, N * 2048 / 2), 0);
    assert_int_equal(said.n_rows, N);
    for (size_t i = 0; i < 2048; i++)
        assert_true(row_of(&said, PC(20000 + i)) == &said.rows[i]);
    assert_int_equal(dp_consumer_commit(c), 0);
    release_all();
    write_and_commit(c);
    dp_consumer_free(c);
}

/* Each window is short of memory, and its changes differ from those of the window before. */
TEST(windows_that_follow_each_other_are_all_short)
{
    struct dp_consumer *c = new_consumer();
    size_t n_bytes = 400 << 10;
    allocate_all();
    while (write_with(c, n_bytes))
        n_bytes += 16 << 10;
    assert_non_null(overflow());
    sums_are(all_objects(), all_objects());
    assert_int_equal(dp_consumer_commit(c), 0);
    for (int round = 1; round < 4; round++) {
        for (unsigned i = 0; i < N; i++)
            allocate(20000 + i, round);
        assert_int_equal(write_with(c, n_bytes), 0);
        assert_non_null(overflow());
        sums_are(round * N, all_objects() + round * (round + 1) / 2 * N);
        assert_int_equal(dp_consumer_commit(c), 0);
    }
    for (int round = 1; round < 4; round++)
        for (unsigned i = 0; i < N; i++)
            release(20000 + i, round);
    release_all();
    write_and_commit(c);
    sums_are(0, 0);
    dp_consumer_free(c);
}

/* Records for which the baseline has no entry, since there was no memory once: their sum has its own baseline. */
TEST(records_without_an_entry_are_one_sum_in_each_window)
{
    struct dp_consumer *c = new_consumer();
    for (unsigned i = 0; i < MANY; i++)
        allocate(40000 + i, 2);
    for (size_t n_bytes = 0; n_bytes < MANY * 16;
         n_bytes += 128 << 10) /* until a scan is reached, which cannot grow it */
        if (write_with(c, n_bytes) == 0)
            assert_int_equal(dp_consumer_abandon(c), 0);
    write_and_commit(c);
    sums_are(2 * MANY, 2 * MANY);
    assert_true(overflow() && said.n_rows < MANY);
    for (int64_t round = 1; round < 4; round++) {
        for (unsigned i = 0; i < MANY; i++)
            allocate(40000 + i, round);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(dp_consumer_write(c, 0, take, &taken, NULL), 0);
            assert_int_equal(i ? dp_consumer_commit(c) : dp_consumer_abandon(c), 0);
            read_taken(&taken, &said);
            sums_are(round * MANY, (2 + round * (round + 1) / 2) * MANY);
        }
    }
    for (unsigned i = 0; i < MANY; i++)
        release(40000 + i, 8);
    write_and_commit(c);
    sums_are(0, 0);
    dp_consumer_free(c);
}

TEST(what_was_summed_up_and_dropped_comes_again)
{
    struct dp_consumer *c = new_consumer();
    allocate_all();
    for (size_t n_bytes = 400 << 10;; n_bytes += 16 << 10)
        if (write_with(c, n_bytes) == 0)
            break;
    assert_true(said.n_rows < N && overflow());
    assert_int_equal(dp_consumer_abandon(c), 0);
    allocate(20000, 5);
    write_and_commit(c);
    sums_are(all_objects() + 5, all_objects() + 5);
    release(20000, 5);
    release_all();
    write_and_commit(c);
    sums_are(0, 0);
    dp_consumer_free(c);
}

UNIT(records_begin, NULL)
