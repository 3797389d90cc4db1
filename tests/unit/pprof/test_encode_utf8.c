/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <stdbool.h>
#include <string.h>

#include "pprof/encode_utf8.h"

/* How much of the character is valid, also behind text of each length, which is checked eight bytes at a time. */
static bool is_character(const char *bytes, size_t n)
{
    char text[40];
    size_t alone = dp_encode_utf8_prefix(bytes, n);
    for (size_t n_before = 0; n_before < 20; n_before++) {
        memset(text, 'a', sizeof text);
        memcpy(text + n_before, bytes, n);
        assert_int_equal(dp_encode_utf8_prefix(text, n_before + n), n_before + alone);
        assert_int_equal(dp_encode_utf8_prefix(text, n_before + n + 9), n_before + (alone == n ? n + 9 : 0));
    }
    return alone == n;
}

TEST(characters_are_those_of_the_rfc)
{
    static const char *const right[] = {
        "\x7f",         "\xc2\x80",     "\xdf\xbf",         "\xe0\xa0\x80",     "\xec\xbf\xbf",    "\xed\x9f\xbf",
        "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf3\xbf\xbf\xbf", "\xf4\x8f\xbf\xbf"};
    static const char *const wrong[] = {"\x80",
                                        "\xbf",
                                        "\xc0\x80",
                                        "\xc1\xbf",
                                        "\xc2",
                                        "\xc2\x7f",
                                        "\xc2\xc0",
                                        "\xe0\x9f\xbf",
                                        "\xed\xa0\x80",
                                        "\xe1\x80",
                                        "\xe1\x80\xc0",
                                        "\xe1\x80\x7f",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xf1\x80\x80",
                                        "\xf1\x80\x80\xc0",
                                        "\xf1\x80\x41\x80",
                                        "\xff",
                                        "\xf8\x88\x80\x80\x80"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        assert_true(is_character(right[i], strlen(right[i])));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(dp_encode_utf8_prefix(wrong[i], strlen(wrong[i])), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(is_character(wrong[i], strlen(wrong[i])));
}

TEST(each_wrong_byte_is_replaced_and_none_beside_it)
{
    static const char *const texts[][2] = {{"", ""},
                                           {"ab", "ab"},
                                           {"a\xffz", "a\xef\xbf\xbdz"},
                                           {"\xe1\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
                                           {"\xc3\xa9\xc3", "\xc3\xa9\xef\xbf\xbd"},
                                           {"12345678\x80", "12345678\xef\xbf\xbd"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char to[64];
        memset(to, 'x', sizeof to);
        size_t n = dp_encode_utf8_replace(to, texts[i][0], strlen(texts[i][0]));
        assert_int_equal(n, strlen(texts[i][1]));
        assert_memory_equal(to, texts[i][1], n);
        assert_int_equal(to[n], 'x');
    }
}

UNIT(NULL, NULL)
