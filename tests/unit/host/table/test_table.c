/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "base/stats.h"
#include "host/table/table_state.h"

#define KINDS_BYTES (4 << 20)
#define SPARE_BYTES (1 << 20)

static size_t used_at_start;

static int start(void **state)
{
    assert_int_equal(dp_table_count(DP_KIND_HEAP), 0); /* records.h is used without the tables */
    int err = dp_table_init(KINDS_BYTES, SPARE_BYTES);
    used_at_start = dp_mem_used();
    dp_mem_cap(used_at_start); /* nothing to spare */
    return err;
}

static struct dp_stack stack_of(dp_frame_id *frames, uint32_t depth, dp_frame_id first)
{
    for (uint32_t i = 0; i < depth; i++)
        frames[i] = first + i;
    return (struct dp_stack){.depth = depth, .frames = frames, .hash = dp_stack_hash(frames, depth)};
}

static long page_faults(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

TEST(the_zero_of_empty_tables_touches_no_memory)
{
    struct dp_table_base base;
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        assert_true(dp_table_is_empty(kind));
    long faults = page_faults();
    dp_table_set_base();
    assert_true(page_faults() - faults < DP_KIND_TABLES);
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++) {
        dp_table_base(kind, 0, &base);
        assert_true(base.n == 0 && base.v == 0);
    }
}

TEST(the_tables_stay_within_their_budget)
{
    assert_true(dp_mem_used() <= KINDS_BYTES + 16 * 4096);
    assert_true(dp_mem_used() > KINDS_BYTES / 10 * 7);
}

TEST(record_0_is_the_overflow_row)
{
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++) {
        const struct dp_record *record = dp_table_record(kind, 0);
        assert_true(dp_table_count(kind) >= 1);
        assert_int_equal(record->depth, 1);
        assert_int_equal(dp_table_frames(record)[0], DP_FRAME_OVERFLOW);
    }
}

TEST(a_record_is_its_kind_heap_labels_and_frames)
{
    dp_frame_id frames[8], others[8];
    struct dp_stack a = stack_of(frames, 8, 100), shorter = a, other = stack_of(others, 8, 100);
    dp_record_id id = dp_table_intern(DP_KIND_HEAP, 0, 0, &a);
    assert_int_not_equal(id, 0);
    assert_int_equal(dp_table_intern(DP_KIND_HEAP, 0, 0, &other), id);
    assert_int_not_equal(dp_table_intern(DP_KIND_HEAP, 1, 0, &a), id);
    assert_int_not_equal(dp_table_intern(DP_KIND_HEAP, 0, 1, &a), id);
    /* the same hash is not the same stack */
    shorter.depth = 7;
    assert_int_not_equal(dp_table_intern(DP_KIND_HEAP, 0, 0, &shorter), id);
    others[3]++;
    assert_int_not_equal(dp_table_intern(DP_KIND_HEAP, 0, 0, &other), id);
    others[3]--;
    const struct dp_record *record = dp_table_record(DP_KIND_HEAP, id);
    assert_int_equal(record->depth, 8);
    assert_memory_equal(dp_table_frames(record), frames, sizeof frames);
    /* ids are dense in each kind by itself */
    dp_record_id mutex = dp_table_intern(DP_KIND_MUTEX, 0, 0, &a);
    assert_int_equal(mutex, 1);
    assert_int_equal(dp_table_count(DP_KIND_MUTEX), 2);
}

TEST(a_hash_that_everything_shares_only_costs_time)
{
    dp_frame_id frames[4];
    dp_record_id ids[20];
    for (uint32_t i = 0; i < 20; i++) {
        struct dp_stack stack = stack_of(frames, 4, 5000 + i * 10);
        stack.hash = 42;
        ids[i] = dp_table_intern(DP_KIND_BLOCK, 0, 0, &stack);
        assert_int_not_equal(ids[i], 0);
    }
    for (uint32_t i = 0; i < 20; i++) {
        struct dp_stack stack = stack_of(frames, 4, 5000 + i * 10);
        stack.hash = 42;
        assert_int_equal(dp_table_intern(DP_KIND_BLOCK, 0, 0, &stack), ids[i]);
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(ids[i], ids[k]);
    }
}

/* Bounds what a search costs: 64 words of the index. */
TEST(of_more_than_64_stacks_with_one_hash_the_others_are_counted_as_overflow)
{
    enum { PROBES = 64 };
    dp_frame_id frames[4];
    uint64_t before = dp_stats_read_of(DP_STAT_OVERFLOW, DP_KIND_CHAIN);
    for (uint32_t i = 0; i <= PROBES; i++) {
        struct dp_stack stack = stack_of(frames, 4, 6000 + i * 10);
        stack.hash = 42;
        dp_record_id id = dp_table_intern(DP_KIND_CHAIN, 0, 0, &stack);
        assert_int_equal(id, i < PROBES ? i + 1 : 0);
    }
    assert_int_equal(dp_stats_read_of(DP_STAT_OVERFLOW, DP_KIND_CHAIN) - before, 1);
    struct dp_stack last = stack_of(frames, 4, 6000 + (PROBES - 1) * 10);
    last.hash = 42;
    assert_int_equal(dp_table_intern(DP_KIND_CHAIN, 0, 0, &last), PROBES);
    struct dp_stack other = stack_of(frames, 4, 9000);
    assert_int_equal(dp_table_intern(DP_KIND_CHAIN, 0, 0, &other), PROBES + 1); /* no id was lost */
}

/* Of stacks that share a hash, whichever frame it is that differs. */
TEST(every_frame_tells_stacks_apart)
{
    dp_frame_id frames[11];
    dp_record_id ids[12];
    for (uint32_t depth = 1; depth <= 11; depth++)
        for (uint32_t other = 0; other <= depth; other++) {
            struct dp_stack stack = stack_of(frames, depth, 7000);
            if (other < depth)
                frames[other] += 50;
            stack.hash = depth * UINT64_C(0x9E3779B97F4A7C15);
            ids[other] = dp_table_intern(DP_KIND_BLOCK, 0, 0, &stack);
            assert_int_not_equal(ids[other], 0);
            for (uint32_t k = 0; k < other; k++)
                assert_int_not_equal(ids[other], ids[k]);
        }
}

/* As if a tmpfs had no page for the entries from `committed` on. */
static void refuse_from(struct dp_shared_array *array, uint32_t committed, const struct dp_stack *stacks, size_t n)
{
    uint32_t all = dp_load_relaxed(&array->committed);
    dp_store_relaxed(&array->committed, committed);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(dp_table_intern(DP_KIND_BLOCK, 0, 0, &stacks[i]), 0);
    dp_store_relaxed(&array->committed, all);
}

TEST(a_refused_page_uses_up_no_ids_and_no_frames)
{
    enum { N = 50, DEPTH = 4 };
    dp_frame_id frames[N][DEPTH];
    struct dp_stack stacks[N];
    for (uint32_t i = 0; i < N; i++)
        stacks[i] = stack_of(frames[i], DEPTH, 20000 + i * DEPTH);
    struct dp_table_of_kind *table = &dp_table_kinds[DP_KIND_BLOCK];
    uint32_t id = dp_load_relaxed(&table->ids.next), frame = dp_load_relaxed(&dp_table_stacks.growth.next);
    refuse_from(table->shared_records, id, stacks, N);
    refuse_from(table->shared_counters, id, stacks, N);
    assert_int_equal(dp_load_relaxed(&dp_table_stacks.growth.next), frame);
    refuse_from(dp_table_stacks.shared, frame, stacks, N);
    assert_int_equal(dp_load_relaxed(&table->ids.next), id + 1);
    assert_int_equal(dp_load_relaxed(&dp_table_stacks.growth.next), frame + DEPTH);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(dp_table_intern(DP_KIND_BLOCK, 0, 0, &stacks[i]), id + i);
        assert_int_equal(dp_table_record(DP_KIND_BLOCK, id + i)->stack, frame + i * DEPTH);
        assert_memory_equal(dp_table_frames(dp_table_record(DP_KIND_BLOCK, id + i)), frames[i], sizeof frames[i]);
    }
}

/* Past thousands of single events a record gets stripes; nobody can tell from the sums. */
TEST(a_hot_record_counts_on)
{
    dp_frame_id frames[3];
    struct dp_stack stack = stack_of(frames, 3, 9000);
    dp_record_id id = dp_table_intern(DP_KIND_HEAP, 0, 0, &stack);
    struct dp_counts counts;
    for (int64_t i = 1; i <= 100000; i++) {
        dp_table_add(DP_KIND_HEAP, id, 1, 100);
        if (i % 2)
            dp_table_add_free(DP_KIND_HEAP, id, 1, 100);
        if (i % 1000 == 0 || (i > 4000 && i < 4200)) {
            dp_table_read(DP_KIND_HEAP, id, &counts);
            assert_int_equal(counts.n, i);
            assert_int_equal(counts.v, i * 100);
            assert_int_equal(counts.free_n, (i + 1) / 2);
            assert_int_equal(counts.free_v, (i + 1) / 2 * 100);
        }
    }
    dp_table_set_base();
    struct dp_table_base base;
    dp_table_base(DP_KIND_HEAP, id, &base);
    assert_int_equal(base.n, 100000);
    assert_int_equal(base.v, 10000000);
}

TEST(a_full_table_says_0_counts_it_and_still_finds_what_it_has)
{
    dp_frame_id frames[2], deep[1024];
    struct dp_stack first = stack_of(frames, 2, 100000);
    dp_record_id id = dp_table_intern(DP_KIND_MUTEX, 0, 0, &first);
    uint64_t n_overflows = dp_stats_read(DP_STAT_OVERFLOW);
    uint32_t made = 0, n_shares = 0, i;
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        n_shares += dp_kind_table[kind].table_share;
    for (i = 1; i < 1000000; i++) {
        struct dp_stack stack = stack_of(deep, 2, 100000 + i * 2);
        if (!dp_table_intern(DP_KIND_MUTEX, 0, 0, &stack))
            break;
        made++;
    }
    assert_true(made > KINDS_BYTES / (2 * n_shares) / 100 && i < 1000000);
    assert_int_equal(dp_stats_read(DP_STAT_OVERFLOW), n_overflows + 1);
    assert_int_equal(dp_table_intern(DP_KIND_MUTEX, 0, 0, &first), id);
    uint32_t count = dp_table_count(DP_KIND_MUTEX);
    struct dp_stack stack = stack_of(deep, 1024, 7);
    for (i = 0; i < 100; i++) {
        stack.hash += 1;
        assert_int_equal(dp_table_intern(DP_KIND_MUTEX, 0, 0, &stack), 0);
    }
    assert_int_equal(dp_table_count(DP_KIND_MUTEX), count);
    /* stacks of all kinds share one store: when that is full, the other kinds are too */
    for (i = 0; dp_table_intern(DP_KIND_BLOCK, 0, i, &stack); i++)
        assert_true(i < 2000);
    assert_int_equal(dp_table_intern(DP_KIND_HEAP, 0, 1, &stack), 0);
}

TEST(a_full_table_grows_while_there_is_memory_to_spare)
{
    dp_frame_id frames[1024];
    struct dp_stack stack = stack_of(frames, 1024, 7);
    assert_int_equal(dp_table_intern(DP_KIND_HEAP, 0, 1, &stack), 0);
    assert_int_equal(dp_mem_used(), used_at_start);
    dp_mem_cap((size_t)64 << 20);
    uint32_t made = 0;
    while (dp_table_intern(DP_KIND_HEAP, 0, made + 1, &stack))
        assert_true(++made < 2000);
    assert_true(made >= SPARE_BYTES / 5 * 4 / sizeof frames - 16);
    assert_true(dp_mem_used() > used_at_start && dp_mem_used() <= used_at_start + SPARE_BYTES);
    for (uint32_t labels = 1; labels <= made; labels++) {
        dp_record_id id = dp_table_intern(DP_KIND_HEAP, 0, labels, &stack);
        assert_int_equal(dp_table_record(DP_KIND_HEAP, id)->labels, labels);
        assert_memory_equal(dp_table_frames(dp_table_record(DP_KIND_HEAP, id)), frames, sizeof frames);
    }
}

UNIT(start, NULL)
