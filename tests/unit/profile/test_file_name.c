/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <string.h>

#include "profile/comments.h"
#include "profile/file_name.h"
#include "profile/kinds.h"

TEST(a_name_that_was_made_is_taken_apart)
{
    static const char *const programs[] = {"a", "redis-server", "a.b", ".hidden", "7.0001.heap"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (unsigned kind = 0; kind < DP_KINDS; kind++) {
            char path[DP_PROFILE_NAME_MAX + 8] = "dir/x/";
            struct dp_profile_name name;
            dp_profile_name_format(path + 6, programs[i], 4711, 12345, kind);
            assert_true(dp_profile_name_parse(path, &name));
            assert_ptr_equal(name.program, path + 6);
            assert_int_equal(name.n_program, strlen(programs[i]));
            assert_int_equal(name.n_process, strlen(programs[i]) + 5);
            assert_int_equal(name.pid, 4711);
            assert_int_equal(name.seq, 12345);
            assert_int_equal(name.kind_id, kind);
            assert_memory_equal(name.kind, dp_kind_table[kind].name, name.n_kind);
        }
    char name[DP_PROFILE_NAME_MAX];
    dp_profile_name_format(name, "p", 1, 2, DP_KIND_HEAP);
    assert_string_equal(name, "p.1.0002.heap.pb.gz");
}

TEST(other_names_are_none)
{
    static const char *const names[] = {"",
                                        "heap.pb.gz",
                                        ".pb.gz",
                                        "1.0001.heap.pb.gz",
                                        ".1.0001.heap.pb.gz",
                                        "p.1.001.heap.pb.gz",
                                        "p.1.00x1.heap.pb.gz",
                                        "p..0001.heap.pb.gz",
                                        "p.-1.0001.heap.pb.gz",
                                        "p.1.+0001.heap.pb.gz",
                                        "p.1.0001.heap.pb",
                                        "p.1.0001.heap.pb.gz.tmp",
                                        "p.1.0001.heap.pb.gz/x"};
    struct dp_profile_name name;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_false(dp_profile_name_parse(names[i], &name));
    assert_true(dp_profile_name_parse("p.1.0001.cores.pb.gz", &name));
    assert_int_equal(name.kind_id, DP_KINDS);
    assert_true(dp_profile_name_parse("p.1.99999999999999999999.heap.pb.gz", &name));
    assert_true(name.seq == UINT64_MAX);
}

TEST(the_name_of_a_file_under_way_has_the_pid)
{
    char name[DP_PROFILE_NAME_MAX];
    dp_profile_name_format_temporary(name, "a.b", 4711, DP_KIND_BLOCK, 0x123abc);
    assert_string_equal(name, ".a.b.4711.block.123abc.tmp");
    assert_int_equal(dp_profile_name_temporary_pid(name), 4711);
    assert_int_equal(dp_profile_name_temporary_pid(name + 1), 0);
    assert_int_equal(dp_profile_name_temporary_pid(".a.b.4711.cores.123abc.tmp"), 0);
    assert_int_equal(dp_profile_name_temporary_pid(".a.x.block.123abc.tmp"), 0);
    assert_int_equal(dp_profile_name_temporary_pid(".a.b.4711.block.copy.tmp"), 0); /* a user's file */
    assert_int_equal(dp_profile_name_temporary_pid(".a.b.4711.block..tmp"), 0);
    assert_int_equal(dp_profile_name_temporary_pid(".tmp"), 0);
    assert_int_equal(dp_profile_name_temporary_pid(""), 0);
}

static bool number_of(const char *text, const char *begin, int64_t *number)
{
    return dp_profile_comment_number(text, strlen(text), begin, number);
}

TEST(comments_are_read_as_they_are_written)
{
    char text[80];
    int64_t number;
    size_t n = dp_profile_comment_format(text, sizeof text, DP_COMMENT_RSS_TOTAL, "", INT64_MAX);
    assert_string_equal(text, "#RssTotal=9223372036854775807");
    assert_true(dp_profile_comment_number(text, n, DP_COMMENT_RSS_TOTAL, &number) && number == INT64_MAX);
    assert_false(dp_profile_comment_number(text, n, DP_COMMENT_RSS_ANON, &number));
    assert_false(number_of("#RssTotal=9223372036854775808", DP_COMMENT_RSS_TOTAL, &number));
    assert_false(number_of("#RssTotal=", DP_COMMENT_RSS_TOTAL, &number));
    assert_false(number_of("#RssTotal=-1", DP_COMMENT_RSS_TOTAL, &number));
    assert_false(number_of("#RssTotal=1x", DP_COMMENT_RSS_TOTAL, &number));
}

TEST(a_part_has_a_name_and_bytes)
{
    char text[80];
    const char *name;
    size_t n_name, n = dp_profile_comment_format(text, sizeof text, DP_COMMENT_RSS_PART, "a = b=", 7);
    int64_t bytes;
    assert_true(dp_profile_comment_part(text, n, DP_COMMENT_RSS_PART, &name, &n_name, &bytes));
    assert_int_equal(n_name, 5);
    assert_memory_equal(name, "a = b", 5);
    assert_int_equal(bytes, 7);
    static const char *const others[] = {
        "", "#RssPart ", "#RssPart =1", "#RssPart x", "#RssPart x=", "#RssPart x=1 ", "#RssParts x=1"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(
            dp_profile_comment_part(others[i], strlen(others[i]), DP_COMMENT_RSS_PART, &name, &n_name, &bytes));
}

UNIT(NULL, NULL)
