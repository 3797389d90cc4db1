/* SPDX-License-Identifier: MIT */
/*
 * host/heap/otel_probes.h - the two static probes (USDT) through which other profilers read the heap samples, with the
 * names and arguments that OpenTelemetry has defined:
 *     otel_memory:alloc(ptr, size, weighted_bytes)   a sampled allocation; weighted_bytes sum to all bytes, unbiased
 *     otel_memory:free(ptr)                          a sampled block is about to be freed
 *
 * Each has a count of tracers: the kernel (or a debugger) adds 1 while a tracer is attached. While the count is 0, a
 * probe costs one load. otel_probes.c has the probe points. Context: hook.
 */
#pragma once

#include "base/atomic.h"

#include <stdint.h>

extern _Atomic uint16_t dp_heap_probe_alloc_tracers DP_INTERNAL;
extern _Atomic uint16_t dp_heap_probe_free_tracers DP_INTERNAL;

void dp_heap_probe_alloc_hit(uintptr_t ptr, uint64_t n_bytes, uint64_t weighted_bytes);
void dp_heap_probe_free_hit(uintptr_t ptr);

/* key: DELTAPROF_KEY(heap, ptr), with the heap in its highest byte. weight: allocations that the sample stands for. */
static inline void dp_heap_probe_alloc(uintptr_t key, uint64_t weight, uint64_t weighted_bytes)
{
    if (__builtin_expect(dp_load_relaxed(&dp_heap_probe_alloc_tracers), 0))
        dp_heap_probe_alloc_hit(key << 8 >> 8, weighted_bytes / weight, weighted_bytes);
}

static inline void dp_heap_probe_free(uintptr_t key)
{
    if (__builtin_expect(dp_load_relaxed(&dp_heap_probe_free_tracers), 0))
        dp_heap_probe_free_hit(key << 8 >> 8);
}
