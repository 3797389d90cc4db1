/* SPDX-License-Identifier: MIT */
/*
 * delta/scale.c - scales sampled values by Go's formula. Computes exp without libm, because the core needs only libc.
 *
 * exp(-x) is 2^-k * exp(r) with r = k ln 2 - x, |r| <= ln 2 / 2. A series yields exp(r) - 1; its error after 14 terms
 * is below 1e-17. The result 1 - exp(-x) is (1 - 2^-k) - 2^-k * (exp(r) - 1), so a small x loses no digits.
 */
#include "delta/scale.h"

#include "base/hash.h"

#include <string.h>

static double power_of_two(int k) /* 2^k, -1022 <= k <= 0 */
{
    uint64_t bits = (uint64_t)(1023 + k) << 52;
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

double dp_scale_probability(double x)
{
    if (!(x < 700))
        return 1;
    const double ln2_hi = 0x1.62e42fefa38p-1, ln2_lo = 0x1.ef35793c7673p-45;
    int k = (int)(x * 1.4426950408889634 + 0.5);
    double r = (k * ln2_hi - x) + k * ln2_lo; /* k ln 2 - x */
    double sum = 0;
    for (int i = 14; i >= 1; i--)
        sum = (sum + 1) * r / i; /* exp(r) - 1 */
    double p = power_of_two(-k);
    return (1 - p) - p * sum;
}

static double factor_of(struct dp_scale *scale, double average)
{
    uint64_t bits;
    memcpy(&bits, &average, sizeof bits);
    __typeof__(scale->known[0]) *known = &scale->known[dp_hash_mix(bits) % DP_SCALE_FACTORS];
    if (known->average != average) {
        known->average = average;
        known->factor = 1 / dp_scale_probability(average / (double)scale->rate_bytes);
    }
    return known->factor;
}

/* A value that has no room in an integer is the largest or the smallest. */
static int64_t whole(double value)
{
    return value >= 0x1p63 ? INT64_MAX : value < -0x1p63 ? INT64_MIN : (int64_t)value;
}

void dp_scale_heap(struct dp_scale *scale, int64_t *objects, int64_t *bytes)
{
    if (*objects == 0 || *bytes == 0) {
        *objects = *bytes = 0;
        return;
    }
    if (scale->rate_bytes <= 1 || (*objects < 0) != (*bytes < 0)) /* blocks have no size below 0 */
        return;
    double factor = factor_of(scale, (double)*bytes / (double)*objects);
    *objects = whole((double)*objects * factor);
    *bytes = whole((double)*bytes * factor);
}
