/* SPDX-License-Identifier: MIT */
/* base/stats.c - the counters and their names; a reader adds up the shards. */
#include "base/stats.h"

#include "base/process.h"

#include <string.h>

_Atomic uint64_t dp_stats[DP_STAT_N];
_Atomic uint64_t dp_stats_of[DP_STATS_KINDS][DP_STAT_N];
struct dp_tallies dp_tallies[DP_SHARDS];

const char *dp_stats_words(enum dp_stat which)
{
    static const char *const words[] = {
#define X(name, subject, words) words,
        DP_STATS(X)
#undef X
    };
    return words[which];
}

const char *dp_stats_name(enum dp_stat which)
{
    static const char *const names[] = {
#define X(name, subject, words) #name,
        DP_STATS(X)
#undef X
    };
    return names[which];
}

enum dp_stats_subject dp_stats_subject(enum dp_stat which)
{
    static const uint8_t subjects[] = {
#define X(name, subject, words) DP_STATS_##subject,
        DP_STATS(X)
#undef X
    };
    return subjects[which];
}

enum dp_stats_scope dp_stats_scope(const char *words)
{
    for (int i = 0; i < DP_STAT_N; i++)
        if (!strcmp(words, dp_stats_words((enum dp_stat)i))) {
            enum dp_stats_subject subject = dp_stats_subject((enum dp_stat)i);
            return subject == DP_STATS_ALL       ? DP_STATS_OF_ALL
                   : subject == DP_STATS_HOLDERS ? DP_STATS_OF_SEVERAL
                                                 : DP_STATS_OF_KIND;
        }
    return DP_STATS_OF_KIND; /* of another version */
}

int64_t dp_tally_read(enum dp_tally which)
{
    int64_t sum = 0;
    for (unsigned i = 0; i < DP_SHARDS; i++)
        sum += dp_load_relaxed(&dp_tallies[i].at[which]);
    return sum < 0 ? 0 : sum; /* a reader may see one shard's decrement before another's increment */
}

uint64_t dp_stats_read_of(enum dp_stat which, unsigned kind)
{
    return dp_load_relaxed(&dp_stats_of[kind][which]);
}

uint64_t dp_stats_read(enum dp_stat which)
{
    uint64_t n = dp_load_relaxed(&dp_stats[which]);
    for (unsigned kind = 0; kind < DP_STATS_KINDS; kind++)
        n += dp_stats_read_of(which, kind);
    return which == DP_STAT_SAMPLES ? n + (uint64_t)dp_tally_read(DP_TALLY_SAMPLES) : n;
}

DP_IN_CHILD void dp_stats_reset(void)
{
    for (int i = 0; i < DP_STAT_N; i++) {
        dp_store_relaxed(&dp_stats[i], 0);
        for (unsigned kind = 0; kind < DP_STATS_KINDS; kind++)
            dp_store_relaxed(&dp_stats_of[kind][i], 0);
    }
    for (unsigned i = 0; i < DP_SHARDS; i++) {
        dp_store_relaxed(&dp_tallies[i].at[DP_TALLY_SAMPLES], 0);
        dp_store_relaxed(&dp_tallies[i].at[DP_TALLY_BYTES], 0);
    }
}
