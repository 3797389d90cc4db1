/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <string.h>

#include "profile/comments.h"

static bool is_number(const char *text, int64_t *number)
{
    return dp_profile_comment_number(text, strlen(text), DP_COMMENT_RSS_ANON, number);
}

TEST(a_number_is_all_of_its_comment)
{
    int64_t number;
    assert_true(is_number("#RssAnon=0", &number));
    assert_int_equal(number, 0);
    assert_true(is_number("#RssAnon=9223372036854775807", &number));
    assert_true(number == INT64_MAX);
    static const char *const wrong[] = {"",
                                        "#RssAnon",
                                        "#RssAnon=",
                                        "#RssAnon=-1",
                                        "#RssAnon=1 ",
                                        "#RssAnon=1:",
                                        "#RssAnon=/",
                                        "#RssAnon=9223372036854775808",
                                        "#RssAnon=92233720368547758070",
                                        "#RssAnom=1",
                                        "RssAnon=1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(is_number(wrong[i], &number));
    assert_true(dp_profile_comment_number("#RssAnon=123", 11, DP_COMMENT_RSS_ANON, &number)); /* without a NUL */
    assert_int_equal(number, 12);
}

TEST(a_part_has_a_name_and_bytes)
{
    const char *name;
    size_t n;
    int64_t bytes;
    char text[80];
    size_t n_text = dp_profile_comment_format(text, sizeof text, DP_COMMENT_RSS_PART, "heap a=b, in use=", 4096);
    assert_string_equal(text, "#RssPart heap a=b, in use=4096");
    assert_int_equal(n_text, strlen(text));
    assert_true(dp_profile_comment_part(text, n_text, DP_COMMENT_RSS_PART, &name, &n, &bytes));
    assert_int_equal(n, strlen("heap a=b, in use"));
    assert_memory_equal(name, "heap a=b, in use", n);
    assert_int_equal(bytes, 4096);
    assert_true(dp_profile_comment_part("#RssPart x=0", 12, DP_COMMENT_RSS_PART, &name, &n, &bytes));
    assert_int_equal(n, 1);
    assert_int_equal(bytes, 0);
    static const char *const wrong[] = {
        "#RssPart ", "#RssPart =1", "#RssPart x", "#RssPart x=", "#RssPart x=1a", "#RssParts x=1", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(dp_profile_comment_part(wrong[i], strlen(wrong[i]), DP_COMMENT_RSS_PART, &name, &n, &bytes));
}

UNIT(NULL, NULL)
