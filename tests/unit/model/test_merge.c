/* SPDX-License-Identifier: MIT */
/* Which profile's in-use values count, by the comments that say how far its process was. */
#include "model/merge.h"
#include "pprof/encode.h"
#include "support/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct bytes written;
static struct dp_merge merge;

static int again(void **state)
{
    dp_merge_fini(&merge);
    merge = (struct dp_merge){0};
    return 0;
}

/* A profile with one sample: allocated since the one before, and in use. */
static void add(uint32_t process, enum dp_merge_state state, const char *comment, int64_t allocated, int64_t in_use)
{
    static const struct dp_encode_value_type types[] = {{"alloc_space", "bytes"}, {"inuse_space", "bytes"}};
    struct dp_decode decode = {.strings = {0}};
    struct dp_decode_error error;
    written.all.n = 0;
    struct dp_encode *e = dp_encode_new(keep, &written);
    dp_encode_header(e, &(struct dp_encode_header){.types = types, .n_types = 2, .time_ns = 1});
    if (comment)
        dp_encode_comment(e, comment);
    int64_t name = dp_encode_string(e, "f", 1);
    struct dp_encode_line line = {.function = dp_encode_function(e, name, name, 0, 0)};
    uint64_t id = dp_encode_location(e, 0, 0x1000, &line, 1);
    dp_encode_sample(e, &id, 1, (int64_t[]){allocated, in_use}, NULL, 0);
    assert_int_equal(dp_encode_finish(e), 0);
    dp_encode_free(e);
    assert_int_equal(dp_decode_scan(&decode, written.all.at, written.all.n, &error), 0);
    assert_int_equal(dp_merge_add(&merge, &decode, (struct dp_merge_place){state, process}, &error), 0);
    dp_decode_fini(&decode);
}

static void assert_sums(int64_t allocated, int64_t in_use)
{
    assert_int_equal(dp_merge_choose(&merge), 0);
    assert_int_equal(merge.model.rows.n, 1);
    assert_int_equal(merge.values.at[0], allocated);
    assert_int_equal(merge.values.at[1], in_use);
}

static void the_exit_counts_not_what_destructors_left(void **state)
{
    add(1, DP_MERGE_OLDER, NULL, 1, 100);
    add(1, DP_MERGE_BEFORE, "#exit", 2, 200);
    add(1, DP_MERGE_NEWEST, "#ended", 4, 3);
    assert_sums(7, 200);
}

static void an_exit_without_an_end_counts_itself(void **state)
{
    add(1, DP_MERGE_BEFORE, NULL, 1, 100);
    add(1, DP_MERGE_NEWEST, "#exit", 2, 200);
    assert_sums(3, 200);
    assert_int_equal(merge.n_ended, 1);
}

static void without_an_exit_the_tick_before_the_end_counts(void **state)
{
    add(1, DP_MERGE_BEFORE, NULL, 1, 100);
    add(1, DP_MERGE_NEWEST, "#ended", 2, 5);
    assert_sums(3, 100);
}

static void an_end_alone_counts_itself(void **state)
{
    add(1, DP_MERGE_NEWEST, "#ended", 2, 5);
    assert_sums(2, 5);
}

static void a_peak_is_a_tick_like_others(void **state)
{
    add(1, DP_MERGE_BEFORE, "#peak", 1, 900);
    add(1, DP_MERGE_NEWEST, NULL, 2, 5);
    assert_sums(3, 5);
}

static void processes_that_go_on_count_alone(void **state)
{
    add(1, DP_MERGE_BEFORE, "#exit", 1, 100);
    add(1, DP_MERGE_NEWEST, "#ended", 2, 50);
    add(2, DP_MERGE_NEWEST, "#exit", 4, 60);
    add(3, DP_MERGE_BEFORE, NULL, 8, 70);
    add(3, DP_MERGE_NEWEST, NULL, 16, 80);
    assert_sums(31, 80);
    assert_int_equal(merge.n_ended, 2);
    assert_int_equal(merge.n_counted, 1);
}

static void ended_processes_count_each_by_its_own_exit(void **state)
{
    add(1, DP_MERGE_BEFORE, "#exit", 1, 100);
    add(1, DP_MERGE_NEWEST, "#ended", 1, 1);
    add(2, DP_MERGE_BEFORE, NULL, 1, 10);
    add(2, DP_MERGE_NEWEST, "#exit", 1, 20);
    assert_sums(4, 120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_exit_counts_not_what_destructors_left, again),
        cmocka_unit_test_setup(an_exit_without_an_end_counts_itself, again),
        cmocka_unit_test_setup(without_an_exit_the_tick_before_the_end_counts, again),
        cmocka_unit_test_setup(an_end_alone_counts_itself, again),
        cmocka_unit_test_setup(a_peak_is_a_tick_like_others, again),
        cmocka_unit_test_setup(processes_that_go_on_count_alone, again),
        cmocka_unit_test_setup(ended_processes_count_each_by_its_own_exit, again),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    again(NULL);
    dp_vec_fini(&written.all);
    return failed;
}
