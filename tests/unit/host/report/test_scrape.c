/* SPDX-License-Identifier: MIT */
/* What a profile for a database says beyond the events: filters by lock, titles, and windows that are not too long. */
#include "support/unit.h"

#include "base/stats.h"
#include "host/report/totals.h"
#include "host/table/labels.h"
#include "host/report/consumer.h"
#include "host/report/settings.h"
#include "support/consumers.h"

#include <deltaprof/hooks.h>

#include <sys/resource.h>

static void wait_on(unsigned lock, unsigned i, int64_t n, int64_t ns)
{
    dp_frame_id frames[] = {dp_frame_intern(PC(i))};
    struct dp_stack stack = {.hash = dp_stack_hash(frames, 1), .depth = 1, .frames = frames};
    dp_record_id id = 0;
    assert_true(dp_record_add(DP_KIND_BLOCK, 0, dp_labels_of_lock(lock), &stack, n, ns, &id));
}

static struct dp_consumer *block_consumer(unsigned locks)
{
    struct dp_consumer *c = dp_consumer_new(DELTAPROF_BLOCK, NULL);
    assert_non_null(c);
    dp_consumer_filter(c, locks);
    assert_int_equal(dp_consumer_skip(c), 0);
    return c;
}

/* Writes with the text left readable in `taken`. */
static void write_raw(struct dp_consumer *c, unsigned flags)
{
    dp_vec_clear(&taken.bytes);
    assert_int_equal(dp_consumer_write(c, flags | DP_WRITE_RAW, take, &taken, NULL), 0);
}

static bool says(const char *text)
{
    return memmem(taken.bytes.at, taken.bytes.n, text, strlen(text)) != NULL;
}

TEST(a_filter_keeps_the_locks_that_it_names_and_others_get_the_rest)
{
    struct dp_consumer *mutex = block_consumer(1u << DELTAPROF_LOCK_MUTEX), *all = block_consumer(0);
    struct dp_consumer *two = block_consumer(1u << DELTAPROF_LOCK_MUTEX | 1u << DELTAPROF_LOCK_SEM);
    wait_on(DELTAPROF_LOCK_MUTEX, 1, 2, 20);
    wait_on(DELTAPROF_LOCK_COND, 2, 3, 3000);
    wait_on(DELTAPROF_LOCK_SEM, 3, 4, 400);
    write_and_commit(mutex);
    assert_int_equal(said.n_rows, 1);
    assert_int_equal(said.sums[1], 20);
    write_and_commit(two);
    assert_int_equal(said.sums[1], 420);
    wait_on(DELTAPROF_LOCK_COND, 2, 1, 1000);
    write_and_commit(mutex);
    assert_int_equal(said.n_rows, 0);
    write_and_commit(all);
    assert_int_equal(said.sums[1], 4420);
    dp_consumer_free(mutex);
    dp_consumer_free(all);
    dp_consumer_free(two);
}

TEST(a_filter_is_no_filter_of_memory)
{
    struct dp_consumer *c = new_consumer();
    dp_consumer_filter(c, 1u << DELTAPROF_LOCK_MUTEX);
    allocate(900, 3);
    write_and_commit(c);
    values_are(900, 3, 3);
    release(900, 3);
    dp_consumer_free(c);
}

TEST(comments_tell_the_kind_and_sum_the_locks_up)
{
    struct dp_consumer *c = block_consumer(0), *cond = block_consumer(1u << DELTAPROF_LOCK_COND);
    wait_on(DELTAPROF_LOCK_MUTEX, 1, 10, 1213000000);
    wait_on(DELTAPROF_LOCK_COND, 2, 2, INT64_C(3000000000));
    write_raw(c, DP_WRITE_SCRAPED);
    assert_true(says("Type: block: where threads waited"));
    assert_true(says("12 waits, 4.213 s: cond 3.000 s in 2, mutex 1.213 s in 10"));
    dp_consumer_abandon(c);
    write_raw(c, 0);
    assert_true(says("Type: block: where threads waited"));
    assert_false(says("12 waits"));
    write_raw(cond, DP_WRITE_SCRAPED);
    assert_true(says("only lock=cond: 2 waits, 3.000 s: cond 3.000 s in 2"));
    dp_consumer_free(c);
    dp_consumer_free(cond);
    c = new_consumer();
    write_raw(c, DP_WRITE_SCRAPED);
    assert_false(says("Type: "));
    dp_consumer_free(c);
}

TEST(a_loss_is_told_by_its_kind)
{
    static const char deep[] = "stacks cut short: more frames", ages[] = "3 profiles without ages",
                      frames[] = "11 frames shown as [overflow]", no_holder[] = "5 waits whose holder is unknown";
    static const struct {
        enum deltaprof_kind kind;
        const char *deep;
        bool ages, no_holder;
    } told[] = {{DELTAPROF_HEAP, "2 stacks cut", true, false},
                {DELTAPROF_MUTEX, "7 stacks cut", false, true},
                {DELTAPROF_BLOCK, NULL, false, false}};
    dp_stats_reset();
    dp_stats_add_of(DP_STAT_STACKS_DEEP, DP_KIND_HEAP, 2);
    dp_stats_add_of(DP_STAT_STACKS_DEEP, DP_KIND_MUTEX, 7);
    dp_stats_add(DP_STAT_AGES_LOST, 3);
    dp_stats_add(DP_STAT_LOCKS_FULL, 5);
    dp_stats_add(DP_STAT_FRAMES_FULL, 11);
    assert_int_equal(dp_stats_read(DP_STAT_STACKS_DEEP), 9);
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        struct dp_consumer *c = dp_consumer_new(told[i].kind, NULL);
        write_raw(c, 0);
        assert_int_equal(says(deep), told[i].deep != NULL);
        assert_true(!told[i].deep || says(told[i].deep));
        assert_int_equal(says(ages), told[i].ages);
        assert_int_equal(says(no_holder), told[i].no_holder);
        assert_true(says(frames));
        dp_consumer_free(c);
    }
    dp_stats_reset();
    struct dp_consumer *c = new_consumer();
    write_raw(c, 0);
    assert_false(says(deep) || says(frames));
    dp_consumer_free(c);
}

TEST(a_long_window_is_stated_as_one_that_databases_take)
{
    const int64_t minute = 60 * INT64_C(1000000000);
    struct dp_consumer *c = new_consumer();
    allocate(901, 1);
    for (int i = 0; i < 3; i++) {
        c->from.wall_ns -= i == 0 ? 49 * minute : i == 1 ? 71 * minute : 0;
        c->from.mono_ns -= i == 0 ? 49 * minute : i == 1 ? 71 * minute : 0;
        write_raw(c, i == 2 ? 0 : DP_WRITE_SCRAPED);
        struct dp_window_edge to = c->to;
        dp_consumer_abandon(c);
        read_taken(&taken, &said);
        if (i == 1) {
            assert_int_equal(said.time_ns, to.wall_ns - 50 * minute);
            assert_int_equal(said.duration_ns, 50 * minute);
            write_raw(c, DP_WRITE_SCRAPED);
            assert_true(says("covers 7200 s, stated as the last 3000 s"));
            dp_consumer_abandon(c);
        } else { /* short enough, or a file: the truth */
            assert_int_equal(said.time_ns, c->from.wall_ns);
            assert_int_equal(said.duration_ns, to.mono_ns - c->from.mono_ns);
        }
    }
    release(901, 1);
    dp_consumer_free(c);
}

TEST(totals_are_those_of_the_profile)
{
    struct dp_totals before, after;
    dp_totals_read(DELTAPROF_BLOCK, &before);
    wait_on(DELTAPROF_LOCK_BARRIER, 4, 5, 50);
    dp_totals_read(DELTAPROF_BLOCK, &after);
    assert_int_equal(after.n_rows, before.n_rows + 1);
    assert_int_equal(after.delay_ns, before.delay_ns + 50);
    assert_int_equal(after.by_lock[DELTAPROF_LOCK_BARRIER].contentions, 5);
    dp_totals_read(DELTAPROF_HEAP, &before);
    allocate(902, 6);
    release(902, 2);
    dp_totals_read(DELTAPROF_HEAP, &after);
    assert_int_equal(after.alloc_objects, before.alloc_objects + 6);
    assert_int_equal(after.inuse_bytes, before.inuse_bytes + 40);
    assert_int_equal(after.by_lock[0].contentions, 0);
}

TEST(a_stack_without_a_limit_is_as_long_as_by_default)
{
    struct dp_config conf;
    struct rlimit before, limit;
    size_t bytes = dp_report_stack_bytes();
    dp_config_init(&conf);
    assert_int_equal(getrlimit(RLIMIT_STACK, &before), 0);
    for (int i = 0; i < 2; i++) {
        limit = (struct rlimit){i ? RLIM_INFINITY : 1 << 20, before.rlim_max};
        if (setrlimit(RLIMIT_STACK, &limit))
            continue; /* the hard limit is lower */
        bytes = i ? bytes : 1 << 20;
        assert_int_equal(dp_report_init(&conf), 0);
        assert_int_equal(dp_report_stack_bytes(), bytes);
    }
    setrlimit(RLIMIT_STACK, &before);
}

UNIT(records_begin, NULL)
