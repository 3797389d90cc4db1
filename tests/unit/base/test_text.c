/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <errno.h>
#include <string.h>

#include "base/text.h"

static int64_t number;

TEST(counts_are_read_up_to_the_largest)
{
    assert_int_equal(dp_text_read_count("0", &number), 0);
    assert_int_equal(number, 0);
    assert_int_equal(dp_text_read_count("9223372036854775807", &number), 0);
    assert_true(number == INT64_MAX);
    assert_int_equal(dp_text_read_count("9223372036854775808", &number), -ERANGE);
    assert_int_equal(dp_text_read_count("92233720368547758070", &number), -ERANGE);
    static const char *const wrong[] = {"", "-1", "+1", " 1", "1 ", "1k", "0x1", "1.0", ":", "/"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(dp_text_read_count(wrong[i], &number), -EINVAL);
}

TEST(sizes_are_powers_of_1024)
{
    static const struct {
        const char *text;
        int64_t n_bytes;
    } right[] = {
        {"0", 0},        {"1023", 1023},           {"3k", 3 << 10},   {"3K", 3 << 10},
        {"5m", 5 << 20}, {"7G", INT64_C(7) << 30}, {"1T", 1LL << 40}, {"8388607T", INT64_MAX - (1LL << 40) + 1}};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_int_equal(dp_text_read_size(right[i].text, &number), 0);
        assert_true(number == right[i].n_bytes);
    }
    assert_int_equal(dp_text_read_size("8388608T", &number), -ERANGE);
    static const char *const wrong[] = {"", "k", "1kk", "1kB", "1P", "1.5M", "1 k"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(dp_text_read_size(wrong[i], &number), -EINVAL);
}

TEST(times_have_units_and_fractions)
{
    static const struct {
        const char *text;
        int64_t ns;
    } right[] = {{"0", 0},
                 {"0ns", 0},
                 {"1ns", 1},
                 {"2us", 2000},
                 {"3ms", 3000000},
                 {"4s", 4000000000},
                 {"5m", 300000000000},
                 {"6h", 21600000000000},
                 {"0.5s", 500000000},
                 {"1.25h", 4500000000000},
                 {"0.9s", 900000000},
                 {"0.099s", 99000000},
                 {"1.9ns", 1},
                 {"0.0000000019s", 1},
                 {"2562047h", INT64_C(2562047) * 3600000000000},
                 {"9223372036854775807ns", INT64_MAX},
                 {"9223372036.854775807s", INT64_MAX}};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_int_equal(dp_text_read_time(right[i].text, &number), 0);
        assert_true(number == right[i].ns);
    }
    static const char *const large[] = {"2562048h", "9223372036854775808ns", "9223372036.854775808s"};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        assert_int_equal(dp_text_read_time(large[i], &number), -ERANGE);
    static const char *const wrong[] = {"", "1", "s", "1.s", "1.", ".5s", "1,5s", "1S", "1 s", "1d", "0x", "1.5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(dp_text_read_time(wrong[i], &number), -EINVAL);
}

TEST(the_shortest_text_reads_back)
{
    static const int64_t numbers[] = {0,       1,        7,       999,         1000,        1001,
                                      1023,    1024,     1025,    60000000000, 90000000000, 3600000000000,
                                      1 << 20, 3 << 20,  1 << 30, 1LL << 40,   3LL << 40,   86400000000000,
                                      1500000, INT64_MAX};
    char text[32];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        dp_text_size(text, sizeof text, numbers[i]);
        assert_int_equal(dp_text_read_size(text, &number), 0);
        assert_true(number == numbers[i]);
        dp_text_time(text, sizeof text, numbers[i]);
        assert_int_equal(dp_text_read_time(text, &number), 0);
        assert_true(number == numbers[i]);
        dp_text_count(text, sizeof text, numbers[i]);
        assert_int_equal(dp_text_read_count(text, &number), 0);
        assert_true(number == numbers[i]);
    }
    dp_text_size(text, sizeof text, 3 << 20);
    assert_string_equal(text, "3M");
    dp_text_size(text, sizeof text, 1536);
    assert_string_equal(text, "1536");
    dp_text_time(text, sizeof text, 90000000000);
    assert_string_equal(text, "90s");
    dp_text_time(text, sizeof text, 0);
    assert_string_equal(text, "0");
}

TEST(a_text_is_cut_to_its_room)
{
    char text[8];
    memset(text, 'x', sizeof text);
    assert_int_equal(dp_text_format(text, 5, "%s", "abcd"), 4);
    assert_string_equal(text, "abcd");
    assert_int_equal(dp_text_format(text, 5, "%s", "abcde"), 4);
    assert_string_equal(text, "abcd");
    assert_int_equal(text[5], 'x');
    assert_int_equal(dp_text_format(text, 1, "%d", 7), 0);
    assert_string_equal(text, "");
    dp_text_size(text, 3, 12345);
    assert_string_equal(text, "12");
}

TEST(numbers_are_formatted_as_by_printf)
{
    char text[200];
    dp_text_format(text, sizeof text, "%d %d %u %x %04u|%s|%%", -5, 0, 4294967295u, 0xbeefu, 42u, "a");
    assert_string_equal(text, "-5 0 4294967295 beef 0042|a|%");
    dp_text_format(text, sizeof text, "%lld %llu %zu %lx %02u %01u", (long long)INT64_MIN,
                   (unsigned long long)UINT64_MAX, (size_t)7, 0x123456789UL, 123u, 0u);
    assert_string_equal(text, "-9223372036854775808 18446744073709551615 7 123456789 123 0");
    errno = ENOSPC;
    dp_text_format(text, sizeof text, "%m");
    assert_string_equal(text, "ENOSPC");
}

TEST(authorities_have_a_host_and_perhaps_a_port)
{
    static const char *const right[] = {"h",     "h:1",      "h:65535",     "a.b-c_d:80",
                                        "[::1]", "[::1]:80", "[1:2]:65535", "127.0.0.1"};
    static const char *const wrong[] = {"",      "h:",   "h:0",   "h:65536", "h:99999999999999999999",
                                        ":80",   "[]",   "[]:80", "[::1",    "[::1]x",
                                        "[g]",   "a b",  "a/b",   "u@h",     "[::1]:",
                                        "h:80a", "h:8:0"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        assert_true(dp_text_is_authority(right[i], strlen(right[i])));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(dp_text_is_authority(wrong[i], strlen(wrong[i])));
    assert_true(dp_text_is_authority("h:80/path", 4));
    assert_true(dp_text_is_authority("[::1]/path", 5));
}

/* The examples of RFC 4648, section 10. */
TEST(base64_is_that_of_the_rfc)
{
    static const char *const examples[][2] = {{"", ""},
                                              {"f", "Zg=="},
                                              {"fo", "Zm8="},
                                              {"foo", "Zm9v"},
                                              {"foob", "Zm9vYg=="},
                                              {"fooba", "Zm9vYmE="},
                                              {"foobar", "Zm9vYmFy"}};
    char text[16];
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        memset(text, 'x', sizeof text);
        size_t n = dp_text_base64(text, (const uint8_t *)examples[i][0], strlen(examples[i][0]));
        assert_int_equal(n, strlen(examples[i][1]));
        assert_memory_equal(text, examples[i][1], n);
        assert_int_equal(text[n], 'x');
    }
    static const uint8_t high[] = {0xff, 0xef, 0xbe};
    dp_text_base64(text, high, 3);
    assert_memory_equal(text, "/+++", 4);
}

TEST(times_are_told_in_utc)
{
    static const struct {
        int64_t seconds;
        const char *text;
    } rows[] = {{0, "1970-01-01T00:00:00Z"},          {951782399, "2000-02-28T23:59:59Z"},
                {951782400, "2000-02-29T00:00:00Z"},  {951868800, "2000-03-01T00:00:00Z"},
                {1764251408, "2025-11-27T13:50:08Z"}, {4107542399, "2100-02-28T23:59:59Z"},
                {4107542400, "2100-03-01T00:00:00Z"}, {1735689599, "2024-12-31T23:59:59Z"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[32];
        dp_text_utc(text, sizeof text, rows[i].seconds * 1000000000 + 999999999);
        assert_string_equal(text, rows[i].text);
    }
}

UNIT(NULL, NULL)
