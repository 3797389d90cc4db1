/* SPDX-License-Identifier: MIT */
/*
 * host/records/scale.h - turns sampled counters of a runtime into estimates of all events. Hooks do not need it: their
 * samples have weights.
 */
#pragma once

#include <stdint.h>

#define DP_SCALE_FACTORS 64

/* Factors by average size. A program has few sizes, and an exponential costs more than all else that a row needs. */
struct dp_records_scale {
    int64_t rate_bytes;
    struct {
        double average, factor; /* average 0: free */
    } known[DP_SCALE_FACTORS];
};

/*
 * Scales objects and bytes by 1 / (1 - exp(-(bytes / objects) / rate)), each truncated to an integer; rate <= 1, or
 * nothing to scale: 1. Source: scaleHeapSample of Go's runtime/pprof/protomem.go. Only the rate must be set before.
 */
void dp_records_scale_heap(struct dp_records_scale *, int64_t *objects, int64_t *bytes);
