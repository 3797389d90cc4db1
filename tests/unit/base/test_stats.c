/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <string.h>

#include "base/hash.h"
#include "base/stats.h"

TEST(a_tally_is_the_sum_of_its_shards)
{
    for (unsigned shard = 0; shard < DP_SHARDS; shard++)
        dp_tally_add(DP_TALLY_LIVE, shard, 10 + shard);
    assert_int_equal(dp_tally_read(DP_TALLY_LIVE), 10 * DP_SHARDS + DP_SHARDS * (DP_SHARDS - 1) / 2);
    for (unsigned shard = 0; shard < DP_SHARDS; shard++) /* what one thread took in, another lets go */
        dp_tally_add(DP_TALLY_LIVE, DP_SHARDS - 1 - shard, -10 - (int64_t)shard);
    assert_int_equal(dp_tally_read(DP_TALLY_LIVE), 0);
}

TEST(a_tally_is_never_negative)
{
    dp_tally_add(DP_TALLY_LIVE, 3, -1);
    assert_int_equal(dp_tally_read(DP_TALLY_LIVE), 0);
    dp_tally_add(DP_TALLY_LIVE, 9, 1);
    assert_int_equal(dp_tally_read(DP_TALLY_LIVE), 0);
}

TEST(a_child_counts_its_own_but_keeps_what_lives)
{
    dp_stats_add(DP_STAT_OVERFLOW, 5);
    dp_tally_add(DP_TALLY_SAMPLES, 0, 7);
    dp_tally_add(DP_TALLY_SAMPLES, DP_SHARDS_OWN, 2);
    dp_tally_add(DP_TALLY_BYTES, 1, 100);
    dp_tally_add(DP_TALLY_LIVE, 2, 4);
    assert_int_equal(dp_stats_read(DP_STAT_SAMPLES), 9);
    assert_int_equal(dp_stats_read(DP_STAT_OVERFLOW), 5);
    dp_stats_reset();
    assert_int_equal(dp_stats_read(DP_STAT_SAMPLES), 0);
    assert_int_equal(dp_stats_read(DP_STAT_OVERFLOW), 0);
    assert_int_equal(dp_tally_read(DP_TALLY_BYTES), 0);
    assert_int_equal(dp_tally_read(DP_TALLY_LIVE), 4);
}

TEST(every_cause_has_words)
{
    for (int i = 0; i < DP_STAT_N; i++) {
        assert_non_null(dp_stats_words(i));
        assert_true(dp_stats_words(i)[0]);
    }
}

TEST(a_cause_that_a_key_can_mend_says_so)
{
    for (int i = 0; i < DP_STAT_N; i++) {
        const char *words = dp_stats_words(i);
        assert_true(!strchr(words, '=') == !strstr(words, "(raise "));
        assert_true(!strstr(words, "full") || strstr(words, "(raise memory=)"));
    }
}

/* Each input bit turns about half of the output bits. */
TEST(mixing_reaches_every_bit)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        unsigned turned = 0;
        for (uint64_t x = 1; x <= 1000; x++)
            turned += (unsigned)__builtin_popcountll(dp_hash_mix(x * 977) ^ dp_hash_mix(x * 977 ^ (uint64_t)1 << bit));
        assert_true(turned >= 26000 && turned <= 38000);
    }
}

TEST(a_hash_of_bytes_knows_length_and_seed)
{
    static const char zeros[32];
    for (size_t n = 0; n < sizeof zeros; n++)
        for (size_t m = 0; m < n; m++)
            assert_true(dp_hash_bytes(zeros, n, 1) != dp_hash_bytes(zeros, m, 1));
    assert_true(dp_hash_bytes("abc", 3, 1) == dp_hash_bytes("abc", 3, 1));
    assert_true(dp_hash_bytes("abc", 3, 1) != dp_hash_bytes("abc", 3, 2));
    assert_true(dp_hash_bytes("abcdefghi", 9, 1) != dp_hash_bytes("abcdefghj", 9, 1));
}

UNIT(NULL, NULL)
