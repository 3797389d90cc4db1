/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <stdlib.h>
#include <string.h>

#include "tool/query/units.h"

static void assert_printed(int64_t value, const char *unit, const char *expected)
{
    char text[40];
    dp_query_print_unit(text, sizeof text, value, unit);
    assert_string_equal(text, expected);
}

TEST(the_largest_unit_leaves_at_least_one)
{
    assert_printed(0, "bytes", "0");
    assert_printed(1023, "bytes", "1023B");
    assert_printed(1024, "bytes", "1kB");
    assert_printed(1536, "byte", "1.50kB");
    assert_printed(-1024, "bytes", "-1kB");
    assert_printed((INT64_C(1) << 50) - 1, "bytes", "1024TB");
    assert_printed(INT64_C(1) << 50, "bytes", "1PB");
    assert_printed(INT64_C(1) << 62, "bytes", "4096PB");
    assert_printed(999, "nanoseconds", "999ns");
    assert_printed(1000, "nanoseconds", "1us");
    assert_printed(59999999999, "ns", "60s");
    assert_printed(60000000000, "nanoseconds", "1mins");
    assert_printed(INT64_C(3600000000000), "nanoseconds", "1hrs");
    assert_printed(INT64_C(86400000000000), "nanoseconds", "1days");
}

TEST(units_have_several_names)
{
    assert_printed(1, "kilobytes", "1kB");
    assert_printed(2048, "kb", "2MB");
    assert_printed(3, "GB", "3GB");
    assert_printed(1500, "milliseconds", "1.50s");
    assert_printed(2, "minute", "2mins");
    assert_printed(5, "bytess", "5");
    assert_printed(5, "count", "5");
    assert_printed(-5, "", "-5");
}

TEST(names_cannot_command_a_terminal)
{
    static const char *const names[][2] = {
        {"a\x1b[0m\x7f\n", "a?[0m??"},
        {"\xc2\x80\xc2\x9f\xc2\xa0", "????\xc2\xa0"},
        {"\xd8\x9b\xd8\x9c", "\xd8\x9b??"},
        {"\xe2\x80\x8d\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\x90", "\xe2\x80\x8d??????\xe2\x80\x90"},
        {"\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xae\xe2\x80\xaf", "\xe2\x80\xa7??????\xe2\x80\xaf"},
        {"\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa", "\xe2\x81\xa5??????\xe2\x81\xaa"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
        {"\xe2\x80", "??"},
        {"\xff\xc3", "??"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[40];
        strcpy(text, names[i][0]);
        dp_query_print_clean(text);
        assert_string_equal(text, names[i][1]);
    }
}

static void assert_name(const char *name, size_t n_columns, const char *expected)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    dp_query_print_name(to, name, n_columns);
    fclose(to);
    assert_string_equal(text, expected);
    free(text);
}

TEST(a_name_that_is_too_wide_loses_its_middle)
{
    assert_name("abcdefghij", 0, "abcdefghij");
    assert_name("abcdefghij", 11, "abcdefghij");
    assert_name("abcdefghij", 10, "abcdefghij");
    assert_name("abcdefghij", 9, "abcd..hij");
    assert_name("abcdefghij", 8, "abc..hij");
    assert_name("abcdefghij", 3, "a..");
    assert_name("abcdefghij", 2, "abcdefghij");
    assert_name("ab\x01", 0, "ab?");
    assert_name("", 5, "");
}

TEST(a_name_has_some_room_on_any_line)
{
    assert_int_equal(dp_query_print_room(0, 50), 0);
    assert_int_equal(dp_query_print_room(80, 50), 30);
    assert_int_equal(dp_query_print_room(59, 50), 9);
    assert_int_equal(dp_query_print_room(58, 50), 8);
    assert_int_equal(dp_query_print_room(57, 50), 8);
    assert_int_equal(dp_query_print_room(20, 50), 8);
}

UNIT(NULL, NULL)
