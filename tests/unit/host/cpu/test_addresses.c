/* SPDX-License-Identifier: MIT */
#include "support/unit.h"

#include "base/mem.h"
#include "base/stats.h"
#include "host/cpu/address_rows.h"
#include "host/cpu/addresses.h"
#include "host/table/table.h"

enum { RECORDS = 1000, PERIOD_NS = 10000000, SAMPLES_A_REPORT = 6000 /* of a core in a minute */ };

static struct dp_address_baseline base;
static struct dp_address_deltas deltas;
static dp_record_id ids[RECORDS];
static uint64_t seed = 1;

static int start(void **state)
{
    dp_mem_cap((size_t)64 << 20);
    int err = dp_table_init(16 << 20, 0);
    dp_cpu_addresses_init();
    for (uint32_t i = 0; !err && i < RECORDS; i++) {
        dp_frame_id frame = DP_FRAME_FIRST_REAL + i;
        struct dp_stack stack = {.hash = dp_stack_hash(&frame, 1), .depth = 1, .frames = &frame};
        ids[i] = dp_table_intern(DP_KIND_CPU, 0, 0, &stack);
    }
    return err;
}

static uint32_t draw(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % n);
}

static void sample(dp_record_id id, uint32_t distance)
{
    dp_table_add(DP_KIND_CPU, id, 1, PERIOD_NS);
    dp_cpu_address_add(id, distance, 1, PERIOD_NS);
}

static const struct dp_delta_rules rules = {.kind = DP_KIND_CPU};

struct sums {
    int64_t n, ns, n_exact;
};

static struct sums report(struct dp_baseline *of_records, bool arrives)
{
    struct dp_rows rows = {0};
    struct sums sums = {0};
    assert_int_equal(dp_delta_scan(&rules, 0, of_records, &rows), 0);
    dp_address_rows_split(&rows, &base, &deltas);
    for (size_t i = 0; i < rows.n; i++) {
        sums.n += rows.at[i].values[0];
        sums.ns += rows.at[i].values[1];
        sums.n_exact += rows.at[i].entry >> DP_ROW_PART_SHIFT ? rows.at[i].values[0] : 0;
        assert_true(rows.at[i].values[0] >= 0 && rows.at[i].values[1] >= 0);
    }
    if (arrives) {
        dp_delta_commit(of_records, &rows);
        dp_address_rows_commit(&base, &deltas);
    }
    dp_vec_fini(&rows);
    dp_vec_fini(&deltas);
    return sums;
}

/* A day of samples, most of them at addresses that were not seen before. */
TEST(a_day_of_new_addresses_has_each_sample_at_its_address)
{
    struct dp_baseline of_records = {0};
    struct sums all = {0};
    int64_t n_samples = 0;
    for (int minute = 0; minute < 24 * 60; minute++) {
        for (int i = 0; i < SAMPLES_A_REPORT; i++, n_samples++) {
            sample(ids[draw(RECORDS)], draw(1u << 20));
            if (i % 100 == 0)
                dp_cpu_addresses_turn();
        }
        if (minute % 7 == 3)
            report(&of_records, false);
        struct sums sums = report(&of_records, true);
        all.n += sums.n;
        all.ns += sums.ns;
        all.n_exact += sums.n_exact;
    }
    assert_int_equal(all.n, n_samples);
    assert_int_equal(all.ns, n_samples * PERIOD_NS);
    assert_true(all.n_exact >= n_samples / 1000 * 999); /* a crowded part of the table may be full */
    assert_int_equal(all.n_exact, n_samples - (int64_t)dp_stats_read(DP_STAT_CPU_ADDRESSES));
    assert_int_equal(dp_stats_read(DP_STAT_OVERFLOW), 0);
    dp_vec_fini(&of_records);
}

TEST(the_same_addresses_need_no_second_table)
{
    struct dp_baseline of_records = {0};
    dp_vec_fini(&base);
    report(&of_records, true);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++)
            sample(ids[i], 7);
        struct sums sums = report(&of_records, true);
        assert_int_equal(sums.n, 100);
        assert_int_equal(sums.n_exact, 100);
    }
    dp_vec_fini(&of_records);
}

TEST(what_was_cleared_before_a_report_stays_with_its_function)
{
    struct dp_baseline of_records = {0};
    report(&of_records, true);
    uint32_t n = 4 * dp_cpu_addresses_slots();
    for (uint32_t i = 0; i < n; i++) {
        sample(ids[i % RECORDS], i);
        dp_cpu_addresses_turn();
    }
    struct sums sums = report(&of_records, true);
    assert_int_equal(sums.n, n);
    assert_true(sums.n_exact > 0 && sums.n_exact < n);
    dp_vec_fini(&of_records);
}

UNIT(start, NULL)
