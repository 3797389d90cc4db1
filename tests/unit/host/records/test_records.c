/* SPDX-License-Identifier: MIT */
#include "support/unit.h"

#include "host/records/records.h"

#define PLENTY ((size_t)1 << 20)
#define N      6

static uintptr_t stacks[N][2];
static struct deltaprof_heap_record heap[N];
static struct deltaprof_block_record block[N];
static struct dp_rows rows;

/* Record i of a runtime: i + 1 objects of 16 bytes, all in use, and as many waits of 16 ns. */
static int fill_records(void **state)
{
    for (unsigned i = 0; i < N; i++) {
        stacks[i][0] = stacks[i][1] = 1000 + i;
        heap[i] = (struct deltaprof_heap_record){stacks[i], 2, i + 1, 16 * (i + 1), 0, 0, 100 + i};
        block[i] = (struct deltaprof_block_record){stacks[i], 2, i + 1, 16 * (i + 1), 100 + i};
    }
    return 0;
}

static size_t subtract(struct dp_records *r, struct dp_records_dump dump)
{
    dump.depth = 2;
    dp_vec_clear(&rows);
    assert_int_equal(dp_records_subtract(r, &dump, &rows), 0);
    return rows.n;
}

/* The number of rows of the first n heap records. */
static size_t commit_heap(struct dp_records *r, size_t n)
{
    size_t n_rows = subtract(r, (struct dp_records_dump){.heap = heap, .n = n});
    dp_records_commit(r, &rows);
    return n_rows;
}

static size_t commit_block(struct dp_records *r, size_t n)
{
    size_t n_rows = subtract(r, (struct dp_records_dump){.block = block, .n = n});
    dp_records_commit(r, &rows);
    return n_rows;
}

static void assert_row(size_t i, uint32_t record, int64_t n, int64_t v, int64_t in_use_n, int64_t in_use_v)
{
    assert_true(i < rows.n);
    assert_int_equal(rows.at[i].id, record);
    assert_int_equal(rows.at[i].values[0], n);
    assert_int_equal(rows.at[i].values[1], v);
    assert_int_equal(rows.at[i].values[2], in_use_n);
    assert_int_equal(rows.at[i].values[3], in_use_v);
}

static void free_all(struct dp_records *r)
{
    dp_records_free(r);
    dp_vec_fini(&rows);
}

/* All are freed, so an unchanged record has no row, but is not forgotten either. */
TEST_WITH(fill_records, NULL, a_small_budget_keeps_records_that_do_not_change)
{
    struct dp_records *r = dp_records_new(0);
    for (unsigned i = 0; i < N; i++) {
        heap[i].free_objects = heap[i].alloc_objects;
        heap[i].free_bytes = heap[i].alloc_bytes;
    }
    assert_int_equal(commit_heap(r, 2), 2);
    assert_int_equal(commit_heap(r, 2), 0);
    assert_int_equal(commit_heap(r, N), N - 2); /* now there are more entries than the budget allows */
    for (int again = 0; again < 4; again++)
        assert_int_equal(commit_heap(r, N), 0);
    free_all(r);
}

TEST_WITH(fill_records, NULL, a_small_budget_keeps_waits_that_do_not_change)
{
    struct dp_records *r = dp_records_new(0);
    assert_int_equal(commit_block(r, 2), 2);
    assert_int_equal(commit_block(r, 2), 0);
    assert_int_equal(commit_block(r, N), N - 2);
    for (int again = 0; again < 4; again++)
        assert_int_equal(commit_block(r, N), 0);
    free_all(r);
}

/* Where the budget is too small for all, records that are absent from one dump are forgotten. */
TEST_WITH(fill_records, NULL, only_a_small_budget_forgets_absent_records)
{
    for (int is_small = 0; is_small < 2; is_small++) {
        struct dp_records *r = dp_records_new(is_small ? 0 : PLENTY);
        assert_int_equal(commit_block(r, 2), 2);
        assert_int_equal(commit_block(r, 2), 0);
        dp_vec_clear(&rows);
        assert_int_equal(subtract(r, (struct dp_records_dump){.block = block + 2, .n = N - 2}), N - 2);
        dp_records_commit(r, &rows);
        block[1].contentions += 5;
        block[1].delay_ns += 50;
        assert_int_equal(commit_block(r, 2), is_small ? 2 : 1);
        if (is_small)
            assert_row(1, 1, block[1].contentions, block[1].delay_ns, 0, 0);
        else
            assert_row(0, 1, 5, 50, 0, 0);
        free_all(r);
    }
}

TEST_WITH(fill_records, NULL, each_value_alone_is_a_change)
{
    struct dp_records *r = dp_records_new(PLENTY), *waits = dp_records_new(PLENTY);
    for (unsigned i = 0; i < N; i++) {
        heap[i].free_objects = heap[i].alloc_objects;
        heap[i].free_bytes = heap[i].alloc_bytes;
    }
    for (unsigned id = 0; id < 2; id++) {
        heap[1].id = id ? 101 : 0; /* found by its stack, and by its id */
        block[1].id = heap[1].id;
        dp_records_reset_ids(r);
        commit_heap(r, N);
        commit_block(waits, N);
        heap[1].free_objects--;
        assert_int_equal(commit_heap(r, N), 1);
        assert_row(0, 1, 0, 0, 1, 0);
        heap[1].free_objects++;
        heap[1].free_bytes -= 3;
        assert_int_equal(commit_heap(r, N), 1);
        assert_row(0, 1, 0, 0, 0, 3);
        heap[1].free_bytes += 3;
        assert_int_equal(commit_heap(r, N), 0);
        block[1].contentions++;
        assert_int_equal(commit_block(waits, N), 1);
        assert_row(0, 1, 1, 0, 0, 0);
        block[1].delay_ns += 7;
        assert_int_equal(commit_block(waits, N), 1);
        assert_row(0, 1, 0, 7, 0, 0);
    }
    dp_records_free(waits);
    free_all(r);
}

/* Here the number of waits grows: the runtime has counted them anew since, and past the old number. */
TEST_WITH(fill_records, NULL, less_delay_alone_means_a_reset)
{
    struct dp_records *r = dp_records_new(PLENTY);
    commit_block(r, N);
    block[3].contentions += 4;
    block[3].delay_ns -= 1;
    assert_int_equal(commit_block(r, N), 1);
    assert_row(0, 3, 0, 0, 0, 0);
    block[3].contentions += 2;
    block[3].delay_ns += 10;
    assert_int_equal(commit_block(r, N), 1);
    assert_row(0, 3, 2, 10, 0, 0);
    free_all(r);
}

/* The second record of an id is added to the first, whose values did not change. */
TEST_WITH(fill_records, NULL, one_id_twice_in_a_dump_is_summed)
{
    struct dp_records *r = dp_records_new(PLENTY);
    block[0].contentions = 9;
    commit_block(r, N);
    block[1] = block[0];
    block[1].contentions = 2;
    block[1].delay_ns = 5;
    assert_int_equal(commit_block(r, N), 1);
    assert_row(0, 1, 2, 5, 0, 0);
    free_all(r);
}

TEST_WITH(fill_records, NULL, an_uncommitted_dump_leaves_the_baseline)
{
    struct dp_records *r = dp_records_new(PLENTY);
    commit_block(r, 2);
    block[0].contentions += 3;
    block[0].delay_ns += 30;
    for (int again = 0; again < 3; again++) {
        assert_int_equal(subtract(r, (struct dp_records_dump){.block = block, .n = 3}), 2);
        assert_row(0, 0, 3, 30, 0, 0);
        assert_row(1, 2, 3, 48, 0, 0);
    }
    free_all(r);
}

/* Enough for several rounds of growth of both indexes, and the last id before each round is found after it. */
TEST_WITH(fill_records, NULL, ids_are_found_when_the_index_has_grown)
{
    static struct deltaprof_block_record many[5000];
    static uintptr_t values[5000];
    struct dp_records *r = dp_records_new((size_t)1 << 30);
    struct dp_records_dump dump = {.block = many, .n = 5000, .depth = 1};
    for (unsigned i = 0; i < 5000; i++) {
        values[i] = 77 + i;
        many[i] = (struct deltaprof_block_record){&values[i], 1, 1, 10, 1 + (uint64_t)i};
    }
    assert_int_equal(subtract(r, dump), 5000);
    dp_records_commit(r, &rows);
    for (unsigned i = 0; i < 2500; i++) { /* another order, so that the cursor finds none */
        struct deltaprof_block_record kept = many[i];
        many[i] = many[4999 - i];
        many[4999 - i] = kept;
    }
    static const uintptr_t other = 1;
    for (unsigned i = 0; i < 5000; i++)
        many[i].stack = &other; /* an id that was seen before says whose record this is */
    assert_int_equal(subtract(r, dump), 0);
    free_all(r);
}

UNIT(NULL, NULL)
