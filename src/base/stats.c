/* SPDX-License-Identifier: MIT */
/* base/stats.c - the counters behind stats.h. */
#include "base/stats.h"

_Atomic uint64_t dp_stats[DP_STAT_N];

const char *dp_stats_words(enum dp_stat which)
{
    static const char *const words[] = {
#define X(name, words) words,
        DP_STATS(X)
#undef X
    };
    return words[which];
}

void dp_stats_reset(void)
{
    for (int i = 0; i < DP_STAT_N; i++)
        dp_store_relaxed(&dp_stats[i], 0);
}
