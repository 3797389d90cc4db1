/* SPDX-License-Identifier: MIT */
/*
 * host/thread/sample.c - the arithmetic of sampling.
 *
 * Statistics. X = -rate * ln u is exponential; P(floor(X) < n) = P(X < n) = 1 - exp(-n / rate) for an integer n, so the
 * floor costs no bias. E[weight * [sampled]] = p * 1/p = 1. Var of the count that n allocations of one size give is
 * n * ((1 - p) / p + r / p), where r <= 1/4 is the variance of the rounding: the bound that the tests use.
 *
 * Logarithm and exponential are written here because the core links only libc. They run once per sample.
 */
#include "host/thread/sample.h"

#include <string.h>

void dp_thread_random_seed(struct dp_thread_random_state *random, uint64_t seed)
{
    random->state = seed;
}

/* splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). */
uint64_t dp_thread_random_next(struct dp_thread_random_state *random)
{
    uint64_t x = random->state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Uniform in (0, 1], never 0: its logarithm is finite. */
static double uniform(struct dp_thread_random_state *random)
{
    return (double)((dp_thread_random_next(random) >> 11) + 1) * 0x1p-53;
}

double dp_thread_sample_ln(double x)
{
    /* x = m * 2^e, m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172: s^24 < 1e-17 */
    uint64_t bits;
    memcpy(&bits, &x, 8);
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & 0xFFFFFFFFFFFFFu) | (uint64_t)1023 << 52;
    double m;
    memcpy(&m, &bits, 8);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
    for (int k = 11; k >= 0; k--)
        sum = sum * s2 + 1.0 / (2 * k + 1);
    return e * 0.6931471805599453 + 2 * s * sum;
}

double dp_thread_sample_probability(double x)
{
    if (x > 40)
        return 1; /* exp(-40) is below half a unit of 1 */
    int halved = 0;
    for (; x > 0.25; x *= 0.5)
        halved++;
    /* q = 1 - exp(-x) = x (1 - x/2 (1 - x/3 (...))); 12 terms of x <= 1/4 leave 1e-17 */
    double q = 1;
    for (int k = 12; k >= 2; k--)
        q = 1 - x / k * q;
    q *= x;
    /* 1 - (1 - q)^2 = q (2 - q) doubles x again, and never cancels */
    for (; halved; halved--)
        q *= 2 - q;
    return q;
}

int64_t dp_thread_sample_distance(struct dp_thread_random_state *random, int64_t rate)
{
    if (rate <= 1)
        return 0;
    return (int64_t)(-(double)rate * dp_thread_sample_ln(uniform(random)));
}

uint32_t dp_thread_sample_weight(struct dp_thread_random_state *random, uint64_t n_bytes, int64_t rate)
{
    if (rate <= 1)
        return 1;
    double weight = 1 / dp_thread_sample_probability((double)(n_bytes + (n_bytes == 0)) / (double)rate);
    uint32_t whole = (uint32_t)weight;
    return whole + (uniform(random) <= weight - whole);
}
