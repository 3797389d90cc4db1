/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <math.h>

#include "host/thread/sample.h"

TEST(logarithm_and_exponential_agree_with_libm)
{
    struct dp_thread_random_state random = {1};
    for (int i = 0; i < 1000000; i++) {
        double u = (double)((dp_thread_random_next(&random) >> 11) + 1) * 0x1p-53;
        double x = u * (i % 2 ? 1 : 1e-9), y = x * 50;
        assert_true(fabs(dp_thread_sample_ln(x) - log(x)) <= 4e-16 * fabs(log(x)) + 1e-16);
        assert_true(fabs(dp_thread_sample_probability(y) + expm1(-y)) <= 3e-15 * -expm1(-y));
    }
    for (double x = 1e-12; x < 800; x *= 1.0007) {
        double theirs = -expm1(-x);
        assert_true(fabs(dp_thread_sample_probability(x) - theirs) <= 4 * 2.3e-16 * theirs);
    }
    assert_true(dp_thread_sample_ln(1) == 0);
    assert_true(dp_thread_sample_probability(0) == 0);
    assert_true(dp_thread_sample_probability(1000) == 1);
    assert_true(dp_thread_sample_probability(1e300) == 1);
    assert_true(fabs(dp_thread_sample_probability(1e-12) - 1e-12) < 1e-23);
}

TEST(rate_1_samples_everything_once)
{
    struct dp_thread_random_state random = {7};
    for (uint64_t n = 0; n < 1000; n++) {
        assert_int_equal(dp_thread_sample_distance(&random, 1), 0);
        assert_int_equal(dp_thread_sample_weight(&random, n, 1), 1);
    }
}

/* floor(X), X exponential of mean r: mean 1/(e^(1/r) - 1), variance mean * (1 + mean); the mean of k within 4.5 sigma.
 */
TEST(distances_have_the_mean_and_the_spread_of_a_geometric_law)
{
    static const int64_t rates[] = {2, 10, 1000, 512 << 10, INT64_C(1) << 31};
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        struct dp_thread_random_state random = {99 + r};
        const int k = 400000;
        double sum = 0, squares = 0, mean = 1 / expm1(1 / (double)rates[r]), variance = mean * (1 + mean);
        int zeros = 0;
        for (int i = 0; i < k; i++) {
            int64_t distance = dp_thread_sample_distance(&random, rates[r]);
            assert_true(distance >= 0);
            sum += (double)distance;
            squares += ((double)distance - mean) * ((double)distance - mean);
            zeros += distance == 0;
        }
        assert_true(fabs(sum / k - mean) < 4.5 * sqrt(variance / k));
        /* the fourth moment of an exponential is 9 sigma^4, so the variance's own deviation is sqrt(8/k) of it */
        assert_true(fabs(squares / k - variance) < 6 * variance * sqrt(8.0 / k) + variance * 0.01);
        double p = -expm1(-1 / (double)rates[r]);
        assert_true(fabs(zeros - k * p) < 5 * sqrt(k * p * (1 - p)) + 1);
    }
}

TEST(a_weight_is_one_over_p_on_average_and_a_neighbouring_integer)
{
    static const uint64_t sizes[] = {0, 1, 16, 100, 4096, 200000, 512 << 10, 4 << 20};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct dp_thread_random_state random = {5};
        const int k = 200000;
        double exact = 1 / -expm1(-(double)(sizes[s] ? sizes[s] : 1) / (512 << 10)), sum = 0;
        for (int i = 0; i < k; i++) {
            uint32_t weight = dp_thread_sample_weight(&random, sizes[s], 512 << 10);
            assert_true(weight == (uint32_t)exact || weight == (uint32_t)exact + 1);
            sum += weight;
        }
        double f = exact - floor(exact);
        assert_true(fabs(sum / k - exact) <= 5 * sqrt(f * (1 - f) / k) + exact * 1e-12);
    }
    struct dp_thread_random_state random = {5};
    uint32_t weight = dp_thread_sample_weight(&random, 1, DP_RATE_MAX);
    assert_true(weight >= UINT32_C(1) << 31 && weight <= (UINT32_C(1) << 31) + 1);
}

/*
 * The whole rule, as an allocator meets it: a countdown that sizes are taken from. The sum of weights over n
 * allocations of one size estimates n with variance n ((1 - p) / p + 1/4 at most); over many seeds the mean lies
 * within 4.5 sigma of the truth, and the spread is what the formula says.
 */
TEST(estimates_are_unbiased_for_every_size)
{
    static const struct {
        uint64_t size;
        int64_t rate;
        int n;
    } cases[] = {{16, 4096, 20000},  {100, 4096, 4000}, {5000, 4096, 2000},
                 {40000, 4096, 500}, {1, 3, 3000},      {3, 2, 2000}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const int seeds = 400;
        int n = cases[c].n;
        double p = -expm1(-(double)cases[c].size / (double)cases[c].rate), sum = 0, squares = 0;
        double exact = 1 / p, f = exact - floor(exact), variance = n * ((1 - p) / p + p * f * (1 - f));
        for (int seed = 0; seed < seeds; seed++) {
            struct dp_thread_random_state random;
            dp_thread_random_seed(&random, 1000003u * (uint64_t)seed + c);
            int64_t left = dp_thread_sample_distance(&random, cases[c].rate), estimate = 0;
            for (int i = 0; i < n; i++) {
                left -= (int64_t)cases[c].size;
                if (left < 0) {
                    estimate += dp_thread_sample_weight(&random, cases[c].size, cases[c].rate);
                    left = dp_thread_sample_distance(&random, cases[c].rate);
                }
            }
            sum += (double)estimate - n;
            squares += ((double)estimate - n) * ((double)estimate - n);
        }
        assert_true(fabs(sum / seeds) < 4.5 * sqrt(variance / seeds) + 1e-9);
        assert_true(squares / seeds < 1.4 * variance + 1 && squares / seeds > 0.7 * variance - 1);
    }
}

UNIT(NULL, NULL)
