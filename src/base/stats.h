/* SPDX-License-Identifier: MIT */
/*
 * base/stats.h - counts events, and losses by cause. Relaxed counters: they order nothing, and a reader may be a few
 * events behind. Context: hook.
 */
#pragma once

#include "base/atomic.h"

#include <stdint.h>

/*
 * Subjects of counters, as bits. A kind of profile shows the counters of its subjects (struct dp_kind). EACH: it counts
 * for one kind (dp_stats_add_of), and that kind shows it. All others count for the process (dp_stats_add). NONE: no
 * profile shows it.
 */
enum dp_stats_subject {
    DP_STATS_NONE = 0,
    DP_STATS_EACH = 0,
    DP_STATS_ALL = 1,
    DP_STATS_MEMORY = 2,
    DP_STATS_WAITS = 4,
    DP_STATS_HOLDERS = 8,
    DP_STATS_TIMERS = 16,
    DP_STATS_STATES = 32,
    DP_STATS_TIMES = 64,
};

/*
 * Each row of this table is a counter. It has the name in code, its subject, and the text that profiles and the line at
 * exit have.
 */
#define DP_STATS(X)                                                                                                    \
    X(SAMPLES, NONE, "samples taken")                                                                                  \
    X(OVERFLOW, EACH, "events counted as [overflow]: the record table is full (raise memory=)")                        \
    X(LIVE_FULL, MEMORY,                                                                                               \
      "samples counted as freed at once, in-use is too low: the set of live blocks is full (raise memory=)")           \
    X(STACKS_CUT, EACH, "stacks cut short: unreadable memory or unknown unwind data")                                  \
    X(STACKS_DEEP, EACH, "stacks cut short: more frames than allowed (raise depth=)")                                  \
    X(STACKS_NONE, EACH, "stacks cut to the leaf frame: no unwind data for it")                                        \
    X(STACKS_BUSY, EACH, "stacks cut to the leaf frame: all buffers for stacks were in use (raise memory=)")           \
    X(FRAMES_FULL, ALL, "frames shown as [overflow]: the table of frames is full (raise memory=)")                     \
    X(FRAMES_APART, EACH, "frames of a runtime put at the root of their stack: their native frame is not known")       \
    X(FORK_RACES, ALL, "events lost in a forked child that was still copying its counters")                            \
    X(EVENTS_LOST, TIMES, "events without a time, left out of the file of events: its ring was full (raise memory=)")  \
    X(LOCKS_FULL, HOLDERS, "waits whose holder is unknown: too many locks or threads at once")                         \
    X(WAITS_UNLISTED, WAITS, "waits that were not seen while they went on: too many threads waited (raise memory=)")   \
    X(ROWS_SUMMED, EACH, "rows written as a part of [overflow]: no memory to write them one by one (raise memory=)")   \
    X(AGES_LOST, MEMORY, "profiles without ages: no memory to tell them apart (raise memory=)")                        \
    X(CPU_UNTIMED, TIMERS, "threads whose CPU time has no stacks: no timer could be had for them (RLIMIT_SIGPENDING)") \
    X(CPU_UNWALKED, TIMERS,                                                                                            \
      "CPU samples without a stack: all buffers for stacks were in use, or the tables were busy")                      \
    X(CPU_ADDRESSES, TIMERS, "CPU samples whose line is not known: the table of addresses is full (raise memory=)")    \
    X(CPU_BRIEF, TIMERS, "CPU samples whose stacks were cut short: much of the record table is used (raise memory=)")  \
    X(CPU_UNLISTED, TIMERS, "threads whose CPU time is not told apart: there are too many")                            \
    X(CPU_INTERRUPTED, TIMERS, "system calls that a CPU sample met at EINTR, by its own signal or another")            \
    X(WALL_UNLISTED, STATES, "threads whose life is not told apart: there are too many")                               \
    X(WALL_UNSEEN, STATES, "looks at threads that did not show where they wait: /proc or a sandbox forbids it")        \
    X(MAPS_LOST, MEMORY, "changes of mappings that could not be kept: too many ranges, or threads")                    \
    X(LATE, ALL, "samples taken while the last profiles were written, or after them: no file may have them")           \
    X(TICKS, NONE, "ticks delivered")                                                                                  \
    X(WRITE_ERRORS, NONE, "deltas not taken by a sink, kept pending")

enum dp_stat {
#define X(name, subject, words) DP_STAT_##name,
    DP_STATS(X)
#undef X
        DP_STAT_N
};

enum { DP_STATS_KINDS = 8 }; /* the most kinds for which there are counters */

extern _Atomic uint64_t dp_stats[DP_STAT_N];
extern _Atomic uint64_t dp_stats_of[DP_STATS_KINDS][DP_STAT_N]; /* counted for a kind, and not in dp_stats */

static inline void dp_stats_add(enum dp_stat which, uint64_t n)
{
    dp_add_relaxed(&dp_stats[which], n);
}

static inline void dp_stats_add_of(enum dp_stat which, unsigned kind, uint64_t n)
{
    dp_add_relaxed(&dp_stats_of[kind][which], n);
}

uint64_t dp_stats_read(enum dp_stat which); /* for all kinds, and for none */
uint64_t dp_stats_read_of(enum dp_stat which, unsigned kind);
const char *dp_stats_words(enum dp_stat which);
const char *dp_stats_name(enum dp_stat which); /* as in code, OVERFLOW */
enum dp_stats_subject dp_stats_subject(enum dp_stat which);
/* Of a counter with these words in a profile: whether other kinds of profile show the same count, and which. */
enum dp_stats_scope { DP_STATS_OF_KIND, DP_STATS_OF_SEVERAL, DP_STATS_OF_ALL };
enum dp_stats_scope dp_stats_scope(const char *words);
void dp_stats_reset(void); /* in a forked child */

/*
 * Counters that change with every event are split into shards of one cache line each. Each of the first DP_SHARDS_OWN
 * shards is written by one thread; all other threads share the rest. The value is the sum over the shards.
 */
#define DP_SHARDS     16u
#define DP_SHARDS_OWN 8u

enum dp_tally {
    DP_TALLY_SAMPLES, /* events recorded */
    DP_TALLY_BYTES,   /* bytes counted by countdowns */
    DP_TALLY_LIVE,    /* entries in live_blocks */
    DP_TALLY_INUSE,   /* bytes that entries in live_blocks stand for */
    DP_TALLY_N
};

struct dp_tallies {
    _Alignas(64) _Atomic int64_t at[DP_TALLY_N];
};
extern struct dp_tallies dp_tallies[DP_SHARDS] DP_INTERNAL;

static inline void dp_tally_add(enum dp_tally which, unsigned shard, int64_t n)
{
    if (shard < DP_SHARDS_OWN)
        dp_add_own(&dp_tallies[shard].at[which], n);
    else
        dp_add_relaxed(&dp_tallies[shard].at[which], n);
}

int64_t dp_tally_read(enum dp_tally which);
