/* SPDX-License-Identifier: MIT */
/* What is in use in a merged profile, and that it keeps the in-use values of all times. */
#include "tool/model/merge.h"
#include "pprof/encode.h"
#include "support/bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "support/unit.h"

static struct bytes written;
static struct dp_model_merge merge;

static int again(void **state)
{
    dp_model_merge_fini(&merge);
    merge = (struct dp_model_merge){0};
    return 0;
}

/* A profile with one sample of f: allocated since the one before, and in use. */
static void encode(const char *comment, int64_t allocated, int64_t in_use)
{
    static const struct dp_encode_value_type types[] = {{"alloc_space", "bytes"}, {"inuse_space", "bytes"}};
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
}

/* Adds what was written last, with all its moments; those of the time count_ns count. Returns how many it has. */
static size_t add_written(int64_t count_ns, const struct dp_model_moment *plain)
{
    struct dp_decode decode = {.strings = {0}};
    struct dp_decode_error error;
    struct dp_model_moments moments = {.at = {0}};
    struct dp_model_merge_part parts[8] = {{.moment = plain ? *plain : (struct dp_model_moment){0}}};
    assert_int_equal(dp_decode_scan(&decode, written.all.at, written.all.n, &error), 0);
    assert_int_equal(dp_model_moments_read(&decode, &moments), 0);
    size_t n = moments.at.n;
    for (size_t i = 0; i < n; i++)
        parts[i].moment = moments.at.at[i];
    for (size_t i = 0; i < (n ? n : 1); i++)
        parts[i].counts = parts[i].moment.time_ns == count_ns;
    assert_int_equal(dp_model_merge_add(&merge, &decode, parts, n ? n : 1, &error), 0);
    dp_vec_fini(&moments.at);
    dp_decode_fini(&decode);
    return n;
}

static void add(uint64_t process, int64_t time_ns, bool counts, int64_t allocated, int64_t in_use)
{
    encode(NULL, allocated, in_use);
    assert_int_equal(
        add_written(counts ? time_ns : -1,
                    &(struct dp_model_moment){.process = process, .seq = (uint64_t)time_ns, .time_ns = time_ns}),
        0);
}

static void assert_sums(int64_t allocated, int64_t in_use)
{
    assert_int_equal(dp_model_merge_choose(&merge), 0);
    assert_int_equal(merge.model.rows.n, 1);
    assert_int_equal(merge.values.at[0], allocated);
    assert_int_equal(merge.values.at[1], in_use);
}

TEST_WITH(again, NULL, flows_are_summed_and_the_chosen_states_too)
{
    add(1, 1, false, 1, 100);
    add(1, 2, true, 2, 200);
    add(2, 1, true, 4, 5);
    assert_sums(7, 205);
    assert_int_equal(merge.n_counted, 2);
}

TEST_WITH(again, NULL, a_merged_profile_has_the_states_of_all_times)
{
    merge.keeps_moments = true;
    add(1, 1, false, 1, 100);
    add(1, 2, true, 2, 200);
    add(1, 3, false, 4, 3);
    add(2, 2, false, 8, 50);
    assert_sums(15, 200);
    written.all.n = 0;
    assert_int_equal(dp_model_merge_write(&merge, keep, &written), 0);
    const int64_t at[] = {0, 100, 250, 3};
    for (int64_t time_ns = 1; time_ns <= 3; time_ns++) {
        again(NULL);
        assert_int_equal(add_written(time_ns, NULL), 4);
        assert_sums(15, at[time_ns]);
        assert_int_equal(merge.kept.at[0].part.moment.bytes, 100);
    }
}

/* Its numbers of locations are not those of the profile any more. */
TEST_WITH(again, NULL, the_states_of_a_profile_that_another_program_changed_are_ignored)
{
    merge.keeps_moments = true;
    add(1, 1, true, 1, 100);
    assert_sums(1, 100);
    written.all.n = 0;
    assert_int_equal(dp_model_merge_write(&merge, keep, &written), 0);
    static const uint8_t location[] = {4 << 3 | 2, 4, 1 << 3, 9, 3 << 3, 9};
    assert_int_equal(keep(&written, location, sizeof location), 0);
    again(NULL);
    struct dp_model_moment plain = {.time_ns = 7};
    assert_int_equal(add_written(7, &plain), 0);
    assert_sums(1, 100);
}

/* A model of values in bytes takes none in kilobytes, nor another number of types. */
TEST_WITH(again, NULL, values_of_another_unit_or_type_are_refused)
{
    static const struct dp_encode_value_type others[][3] = {
        {{"alloc_space", "bytes"}, {"inuse_space", "kilobytes"}},
        {{"alloc_space", "kilobytes"}, {"inuse_space", "bytes"}},
        {{"alloc_space", "bytes"}, {"inuse_objects", "bytes"}},
        {{"alloc_space", "bytes"}, {"inuse_space", "bytes"}, {"third", "bytes"}},
    };
    add(1, 1, true, 1, 100);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct dp_decode decode = {.strings = {0}};
        struct dp_decode_error error;
        struct dp_model_merge_part part = {.counts = true};
        size_t n_types = others[i][2].type ? 3 : 2;
        written.all.n = 0;
        struct dp_encode *e = dp_encode_new(keep, &written);
        dp_encode_header(e, &(struct dp_encode_header){.types = others[i], .n_types = n_types, .time_ns = 2});
        assert_int_equal(dp_encode_finish(e), 0);
        dp_encode_free(e);
        assert_int_equal(dp_decode_scan(&decode, written.all.at, written.all.n, &error), 0);
        assert_int_equal(dp_model_merge_add(&merge, &decode, &part, 1, &error), -EBADMSG);
        assert_non_null(strstr(error.line, "another kind of profile"));
        dp_decode_fini(&decode);
    }
}

TEST_WITH(again, NULL, a_profile_whose_states_do_not_matter_adds_its_flows)
{
    struct dp_decode decode = {.strings = {0}};
    struct dp_decode_error error;
    encode("#ended", 3, 9);
    assert_int_equal(dp_decode_scan(&decode, written.all.at, written.all.n, &error), 0);
    assert_int_equal(dp_model_merge_add(&merge, &decode, NULL, 0, &error), 0);
    dp_decode_fini(&decode);
    assert_true(merge.header.comments.n == 1);
    merge.goes_on = true;
    assert_sums(3, 0);
    assert_true(merge.header.comments.n == 0);
}

int main(void)
{
    int failed = run_unit(NULL, NULL);
    again(NULL);
    dp_vec_fini(&written.all);
    return failed;
}
