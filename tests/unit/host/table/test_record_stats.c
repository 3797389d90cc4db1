/* SPDX-License-Identifier: MIT */
#include "support/unit.h"

#include "base/stats.h"
#include "host/api/recording.h"
#include "host/table/record.h"

static int start(void **state)
{
    struct dp_config conf;
    dp_config_init(&conf);
    return dp_record_init(&conf);
}

static void add_records(unsigned kind, dp_frame_id first, dp_frame_id n)
{
    for (dp_frame_id frame = first; frame < first + n; frame++) {
        struct dp_stack stack = {.hash = dp_stack_hash(&frame, 1), .depth = 1, .frames = &frame};
        dp_record_id id;
        assert_true(dp_record_add(kind, kind == DP_KIND_HEAP, 0, &stack, 1, 10, &id));
    }
}

TEST(records_of_all_kinds_are_counted_once)
{
    struct deltaprof_stats before, after;
    dp_record_stats(&before);
    add_records(DP_KIND_HEAP, 100, 7);
    add_records(DP_KIND_BLOCK, 100, 2);
    add_records(DP_KIND_MUTEX, 100, 3);
    add_records(DP_KIND_HEAP, 103, 4); /* known */
    dp_record_stats(&after);
    assert_int_equal(after.records - before.records, 7 + 2 + 3);
    assert_int_equal(after.memory_bytes >= before.memory_bytes, 1);
}

TEST(each_loss_has_its_own_number)
{
    static const struct {
        unsigned stat;
        size_t at;
    } numbers[] = {
        {DP_STAT_SAMPLES, offsetof(struct deltaprof_stats, samples)},
        {DP_STAT_OVERFLOW, offsetof(struct deltaprof_stats, overflow)},
        {DP_STAT_LIVE_FULL, offsetof(struct deltaprof_stats, live_full)},
        {DP_STAT_STACKS_CUT, offsetof(struct deltaprof_stats, stacks_cut)},
        {DP_STAT_STACKS_DEEP, offsetof(struct deltaprof_stats, stacks_deep)},
        {DP_STAT_STACKS_NONE, offsetof(struct deltaprof_stats, stacks_none)},
        {DP_STAT_STACKS_BUSY, offsetof(struct deltaprof_stats, stacks_none)},
        {DP_STAT_LOCKS_FULL, offsetof(struct deltaprof_stats, locks_full)},
        {DP_STAT_FRAMES_APART, offsetof(struct deltaprof_stats, frames_apart)},
        {DP_STAT_FRAMES_FULL, offsetof(struct deltaprof_stats, frames_full)},
    };
    struct deltaprof_stats before, after;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        dp_record_stats(&before);
        dp_stats_add(numbers[i].stat, 5 + i);
        dp_record_stats(&after);
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            uint64_t was = *(const uint64_t *)(const void *)((const char *)&before + numbers[k].at);
            uint64_t is = *(const uint64_t *)(const void *)((const char *)&after + numbers[k].at);
            assert_int_equal(is - was, numbers[k].at == numbers[i].at ? 5 + i : 0);
        }
    }
}

UNIT(start, NULL)
