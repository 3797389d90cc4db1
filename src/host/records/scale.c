/* SPDX-License-Identifier: MIT */
/* host/records/scale.c - scales sampled values by Go's formula. */
#include "host/records/scale.h"

#include "base/hash.h"
#include "host/thread/sample.h"

#include <string.h>

static double factor_of(struct dp_records_scale *scale, double average)
{
    uint64_t bits;
    memcpy(&bits, &average, sizeof bits);
    __typeof__(scale->known[0]) *known = &scale->known[dp_hash_mix(bits) % DP_SCALE_FACTORS];
    if (known->average != average) {
        known->average = average;
        known->factor = 1 / dp_thread_sample_probability(average / (double)scale->rate_bytes);
    }
    return known->factor;
}

/* Converts to an integer; a value out of range becomes the largest or the smallest. */
static int64_t whole(double value)
{
    return value >= 0x1p63 ? INT64_MAX : value < -0x1p63 ? INT64_MIN : (int64_t)value;
}

void dp_records_scale_heap(struct dp_records_scale *scale, int64_t *objects, int64_t *bytes)
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
