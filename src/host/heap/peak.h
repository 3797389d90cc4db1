/* SPDX-License-Identifier: MIT */
/*
 * host/heap/peak.h - keeps the highest memory in use, and notices that more is in use than a threshold says. The
 * sampled path of allocations asks; other paths pay nothing.
 */
#pragma once

#include "base/stats.h"

/*
 * Calls reached once when the sampled bytes in use are threshold_bytes or more. Then the threshold is off until the
 * next call. reached runs inside an allocation of the program: it must be async-signal-safe. INT64_MAX: off.
 */
void dp_heap_peak_watch(int64_t threshold_bytes, void (*reached)(void));

/* Sampled bytes in use. */
int64_t dp_heap_peak_in_use(void);

/* The most that was seen in use, and the time of day at which it was (dp_clock_wall_coarse_ns); 0: nothing was. */
int64_t dp_heap_peak_most(int64_t *wall_ns);

/* In a forked child: what it inherited is no peak of its own. Only stores. */
void dp_heap_peak_fork_child(void);

void dp_heap_peak_look(unsigned shard, int64_t n_bytes);
extern _Atomic uint8_t dp_heap_peak_step_bits DP_INTERNAL;

/* A sampled block of n_bytes came into use. Context: hook. */
static inline void dp_heap_peak_add(unsigned shard, int64_t n_bytes)
{
    int64_t before = dp_load_relaxed(&dp_tallies[shard].at[DP_TALLY_INUSE]);
    unsigned bits = dp_load_relaxed(&dp_heap_peak_step_bits);
    dp_tally_add(DP_TALLY_INUSE, shard, n_bytes);
    if (__builtin_expect((before ^ (before + n_bytes)) >> bits != 0, 0))
        dp_heap_peak_look(shard, before + n_bytes);
}

/* It went out of use. */
static inline void dp_heap_peak_subtract(unsigned shard, int64_t n_bytes)
{
    dp_tally_add(DP_TALLY_INUSE, shard, -n_bytes);
}
