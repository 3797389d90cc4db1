/* SPDX-License-Identifier: MIT */
#include "support/unit.h"

#include "host/records/scale.h"

TEST(values_are_those_of_go)
{
    static const struct {
        int64_t n, v, n_out, v_out;
    } cases[] = {
        {5, 5 * 327680, 10, 3525422},
        {3, 3 * 327680, 6, 2115253},
        {8, 8 * 327680, 17, 5640676},
        {0, 0, 0, 0},
        {0, 10, 0, 0},
        {7, 0, 0, 0},
    };
    struct dp_records_scale scale = {.rate_bytes = 524288}, not = {.rate_bytes = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t n = cases[i].n, v = cases[i].v;
        dp_records_scale_heap(&scale, &n, &v);
        assert_int_equal(n, cases[i].n_out);
        assert_int_equal(v, cases[i].v_out);
    }
    int64_t n = 5, v = 50;
    dp_records_scale_heap(&not, &n, &v);
    assert_int_equal(n, 5);
    assert_int_equal(v, 50);
}

TEST(values_out_of_range_are_the_largest)
{
    static const struct {
        int64_t n, v, n_out, v_out;
    } cases[] = {
        {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX},
        {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN},
        {1, INT64_MAX, 1, INT64_MAX},
        {INT64_MAX, 1, INT64_MAX, INT64_MAX},
        {1, INT64_MIN, 1, INT64_MIN}, /* no size: not scaled */
        {-3, 3, -3, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dp_records_scale scale = {.rate_bytes = 524288};
        int64_t n = cases[i].n, v = cases[i].v;
        dp_records_scale_heap(&scale, &n, &v);
        assert_int_equal(n, cases[i].n_out);
        assert_int_equal(v, cases[i].v_out);
    }
}

/* There are more sizes than places for factors, and each is scaled three times. */
TEST(a_size_has_its_factor_whatever_was_scaled_before)
{
    struct dp_records_scale scale = {.rate_bytes = 524288};
    for (int round = 0; round < 3; round++)
        for (int64_t size = 1; size < 20 * DP_SCALE_FACTORS; size++) {
            struct dp_records_scale fresh = {.rate_bytes = 524288};
            int64_t n = 3, v = 3 * size, n_fresh = n, v_fresh = v;
            dp_records_scale_heap(&scale, &n, &v);
            dp_records_scale_heap(&fresh, &n_fresh, &v_fresh);
            assert_int_equal(n, n_fresh);
            assert_int_equal(v, v_fresh);
            dp_records_scale_heap(&scale, &n_fresh, &v_fresh); /* of about the same average */
        }
}

UNIT(NULL, NULL)
