/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <string.h>
#include <time.h>

#include "pprof/decode.h"
#include "tool/query/at.h"
#include "tool/query/files.h"
#include "tool/query/naming.h"

static bool is_time(const char *text)
{
    int at = -1;
    bool is_taken = !dp_query_at_parse("test", text, &at);
    assert_int_equal(at, DP_QUERY_AT_TIME);
    return is_taken;
}

TEST(a_time_is_a_word_or_a_clock_that_exists)
{
    int at;
    assert_int_equal(dp_query_at_parse("test", "peak", &at), 0);
    assert_int_equal(at, DP_QUERY_AT_PEAK);
    assert_int_equal(dp_query_at_parse("test", "end", &at), 0);
    assert_int_equal(at, DP_QUERY_AT_END);
    assert_int_equal(dp_query_at_parse("test", "last", &at), 0);
    assert_int_equal(at, DP_QUERY_AT_LAST);
    static const char *const right[] = {"00:00", "23:59:59", "2024-02-29 12:00", "2024-02-29T12:00:01",
                                        "2001-12-31 23:59:59"};
    static const char *const wrong[] = {"",
                                        "peaks",
                                        "24:00",
                                        "12:60",
                                        "12",
                                        "12:00x",
                                        "2023-02-29 12:00",
                                        "2001-04-31 12:00",
                                        "2001-13-01 12:00",
                                        "2001-01-01"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        assert_true(is_time(right[i]));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(is_time(wrong[i]));
}

TEST(a_time_of_today_has_no_date)
{
    char text[64];
    dp_query_at_text(text, sizeof text, 0);
    assert_string_equal(text, "");
    dp_query_at_text(text, sizeof text, (int64_t)1000000000 * 1000000000);
    assert_non_null(strstr(text, "2001-09-0"));
    int64_t now = (int64_t)time(NULL), day = 86400;
    dp_query_at_text(text, sizeof text, (now - 2 * day) * 1000000000);
    assert_true(strlen(text) > 8);
    dp_query_at_text(text, sizeof text, (now - 365 * day) * 1000000000);
    assert_true(strlen(text) > 8);
}

TEST(a_limit_is_a_size_from_1_to_4g)
{
    size_t limit;
    assert_int_equal(dp_query_limit("test", "1", &limit), 0);
    assert_int_equal(limit, 1);
    assert_int_equal(dp_query_limit("test", "3K", &limit), 0);
    assert_int_equal(limit, 3 << 10);
    assert_int_equal(dp_query_limit("test", "5m", &limit), 0);
    assert_int_equal(limit, 5 << 20);
    assert_int_equal(dp_query_limit("test", "4g", &limit), 0);
    assert_int_equal(limit, DP_DECODE_LIMIT_MAX);
    assert_int_equal(dp_query_limit("test", "4294967296", &limit), 0);
    assert_int_equal(limit, DP_DECODE_LIMIT_MAX);
    assert_int_equal(dp_query_limit("test", "4294967295", &limit), 0);
    limit = 77;
    static const char *const wrong[] = {
        "", "0", "0k", "-1", "4294967297", "5g", "17179869185g", "1gg", "1t", "k", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(dp_query_limit("test", wrong[i], &limit), DP_EXIT_USAGE);
    assert_int_equal(limit, 77);
}

TEST(files_stand_by_process_and_kind_the_newest_first)
{
    char *files[] = {"d/a.7.0002.heap.pb.gz",  "d/other",
                     "d/a.7.0010.heap.pb.gz",  "d/a.70.0001.heap.pb.gz",
                     "d/a.7.0003.block.pb.gz", "c/a.7.9999.heap.pb.gz",
                     "d/a.7.10000.heap.pb.gz", "d/b.7.0001.heap.pb.gz"};
    static const size_t order[] = {5, 4, 6, 2, 0, 3, 7};
    struct dp_query_file names[8];
    assert_int_equal(dp_query_files_sort(files, 8, names), 7);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(names[i].position, order[i]);
    assert_true(dp_query_file_is_same(&names[2], &names[3]));
    assert_true(dp_query_file_is_same(&names[3], &names[4]));
    assert_false(dp_query_file_is_same(&names[0], &names[2])); /* another directory */
    assert_false(dp_query_file_is_same(&names[1], &names[2])); /* another kind */
    assert_false(dp_query_file_is_same(&names[4], &names[5])); /* another process */
    assert_false(dp_query_file_is_same(&names[4], &names[6])); /* another program */
    names[3].stamp = 1;
    assert_false(dp_query_file_is_same(&names[2], &names[3])); /* another process with the same number */
    size_t n;
    assert_int_equal(strncmp(dp_query_file_program("d/x.y.7.0001.heap.pb.gz", &n), "x.y.", 4), 0);
    assert_int_equal(n, 3);
    dp_query_file_program("d/x.y", &n);
    assert_int_equal(n, 0);
}

static void assert_short(const char *name, const char *expected)
{
    char text[300];
    strcpy(text, name);
    dp_query_naming_shorten(text);
    assert_string_equal(text, expected);
}

TEST(names_lose_what_is_no_part_of_them)
{
    assert_short("main", "main");
    assert_short("", "");
    assert_short("f(int, char const*)", "f");
    assert_short("ns::f(int) const", "ns::f");
    assert_short("ns::f(int) &", "ns::f");
    assert_short("ns::f(int) const &", "ns::f");
    assert_short("ns::f(int) const volatile &&", "ns::f");
    assert_short("f(int) [clone .isra.0]", "f");
    assert_short("void std::vector<std::pair<int, long>, std::allocator<std::pair<int, long> > "
                 ">::push_back(std::pair<int, long>&&)",
                 "std::vector<std::pair>::push_back");
    assert_short("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::append(char const*)",
                 "std::string::append");
    assert_short("std::ostream& operator<< <char>(std::ostream&, char)", "operator<< <char>");
    assert_short("A::operator()(int) const", "A::operator()");
    assert_short("A::operator bool() const", "A::operator bool");
    assert_short("A::operator->()", "A::operator->");
    assert_short("(anonymous namespace)::f(int)", "(anonymous namespace)::f");
    assert_short("outer::{lambda(int)#1}::operator()(int) const", "outer::{lambda(int)#1}::operator()");
    assert_short("outer::<lambda(int)>::operator()(int)", "outer::{lambda}::operator()");
    assert_short("/usr/lib/x::f(int)", "/usr/lib/x::f(int)");
    assert_short("<module>", "<module>");
    assert_short("[hand-over]", "[hand-over]");
}

UNIT(NULL, NULL)
