/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <string.h>

#include "base/glob.h"
#include "base/hash.h"

TEST(globs_match_whole_names)
{
    static const char *const right[][2] = {{"*", ""},       {"*", "a"},     {"", ""},           {"a", "a"},
                                           {"a*", "a"},     {"*a", "ba"},   {"*a*", "bab"},     {"?", "x"},
                                           {"a?c*", "abc"}, {"*ab", "aab"}, {"*ab*c", "aabbc"}, {"x|a*", "ab"},
                                           {"a|b|c", "c"},  {"|a", ""},     {"**", "a"},        {"a**", "a"}};
    static const char *const wrong[][2] = {{"", "a"},   {"a", ""},    {"a", "ab"},    {"b", "ab"},   {"?", ""},
                                           {"?", "ab"}, {"*a", "ab"}, {"a*b", "abc"}, {"a|b", "ab"}, {"a|b", "a|b"},
                                           {"a|", "b"}, {"A", "a"},   {"*ab", "aba"}};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        assert_true(dp_glob_matches(right[i][0], right[i][1]));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(dp_glob_matches(wrong[i][0], wrong[i][1]));
}

TEST(a_crc_is_that_of_gzip)
{
    assert_int_equal(dp_hash_crc32(0, "123456789", 9), 0xCBF43926);
    assert_int_equal(dp_hash_crc32(dp_hash_crc32(0, "1234", 4), "56789", 5), 0xCBF43926);
    assert_int_equal(dp_hash_crc32(7, "", 0), 7);
    assert_int_equal(dp_hash_crc32(0, "\xff\xff\xff\xff", 4), 0xFFFFFFFF);
}

TEST(a_hash_takes_each_byte_and_no_other)
{
    uint8_t bytes[80];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + 1);
    for (size_t n = 0; n < 70; n++) {
        uint64_t hash = dp_hash_bytes(bytes, n, 5);
        assert_true(hash != dp_hash_bytes(bytes, n, 6));
        assert_true(hash != dp_hash_bytes(bytes, n + 1, 5));
        for (size_t i = 0; i < n + 8; i++) {
            bytes[i] ^= 0x80;
            assert_true((hash == dp_hash_bytes(bytes, n, 5)) == (i >= n));
            bytes[i] ^= 0x80;
        }
    }
}

UNIT(NULL, NULL)
