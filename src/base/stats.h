/* SPDX-License-Identifier: MIT */
/*
 * base/stats.h - every event that could not be kept, counted by cause. Relaxed counters: they order nothing, and a
 * reader may be a few events behind. Context: hook.
 */
#pragma once

#include "base/atomic.h"

#include <stdint.h>

/* name in code, and the words that profiles' comments and the exit line use */
#define DP_STATS(X)                                                                                                    \
    X(SAMPLES, "samples taken")                                                                                        \
    X(OVERFLOW, "events counted as [overflow]: the record table is full (memory=)")                                    \
    X(LIVE_FULL, "samples counted as freed at once: the set of live blocks is full (memory=)")                         \
    X(STACKS_CUT, "stacks cut short: depth, unreadable memory or unknown unwind data")                                 \
    X(STACKS_NONE, "samples with the leaf frame only")                                                                 \
    X(LOCKS_FULL, "contended locks without a slot: their holders are unknown")                                         \
    X(TICKS, "ticks delivered")                                                                                        \
    X(WRITE_ERRORS, "deltas not taken by a sink, kept pending")

enum dp_stat {
#define X(name, words) DP_STAT_##name,
    DP_STATS(X)
#undef X
        DP_STAT_N
};

extern _Atomic uint64_t dp_stats[DP_STAT_N];

static inline void dp_stats_add(enum dp_stat which, uint64_t n)
{
    dp_add_relaxed(&dp_stats[which], n);
}

static inline uint64_t dp_stats_read(enum dp_stat which)
{
    return dp_load_relaxed(&dp_stats[which]);
}

const char *dp_stats_words(enum dp_stat which);
void dp_stats_reset(void); /* a forked child counts its own */
