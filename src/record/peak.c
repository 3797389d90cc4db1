/* SPDX-License-Identifier: MIT */
/*
 * record/peak.c - keeps the most bytes that were in use, and compares them with a threshold, seldom enough for the
 * sampled path.
 *
 * The sum is striped over shards, and to add them up for each sample would be too slow where every allocation is one.
 * So a thread looks at the sum only when its own shard crosses a multiple of a step: 4 KiB, or below 1/256 of the
 * threshold or of the most until now. If the shard has been as high before, the process looks once a tick of the coarse
 * clock (1 to 4 ms) at most. What the shards gained since their last multiples, at most 16 steps, may be missed; in a
 * program of one thread less than a step.
 *
 * All atomics are relaxed: a look that reads an old threshold is one look too many or too few. The thread that takes
 * the threshold off is the only one that calls `reached`.
 */
#include "record/peak.h"

#include "base/clock.h"
#include "base/process.h"

enum { STEP_BITS_LEAST = 12, STEPS_BITS = 8 };

_Atomic uint8_t dp_peak_step_bits = STEP_BITS_LEAST;

static struct {
    _Atomic int64_t threshold_bytes;
    _Atomic int64_t looked_ns;
    void (*_Atomic reached)(void); /* the same one always */
    _Atomic int64_t most_bytes, most_ns;
    _Atomic int64_t highest[DP_SHARDS]; /* of each shard, at a look */
} peak = {.threshold_bytes = INT64_MAX};

DP_IN_CHILD int64_t dp_peak_in_use(void)
{
    return dp_tally_read(DP_TALLY_INUSE);
}

int64_t dp_peak_most(int64_t *wall_ns)
{
    *wall_ns = dp_load_relaxed(&peak.most_ns);
    return dp_load_relaxed(&peak.most_bytes);
}

DP_IN_CHILD static uint8_t step_bits(int64_t bytes)
{
    unsigned bits = STEP_BITS_LEAST;
    while (bits < 62 && bytes >> (bits + STEPS_BITS))
        bits++;
    return (uint8_t)bits;
}

static void note(int64_t in_use)
{
    int64_t most = dp_load_relaxed(&peak.most_bytes);
    if (in_use <= most || !dp_cas_relaxed(&peak.most_bytes, &most, in_use))
        return;
    dp_store_relaxed(&peak.most_ns, dp_clock_wall_coarse_ns());
    if (dp_load_relaxed(&peak.threshold_bytes) == INT64_MAX)
        dp_store_relaxed(&dp_peak_step_bits, step_bits(in_use));
}

static void compare(int64_t in_use)
{
    int64_t threshold = dp_load_relaxed(&peak.threshold_bytes);
    if (threshold != INT64_MAX && in_use >= threshold && dp_cas_relaxed(&peak.threshold_bytes, &threshold, INT64_MAX))
        dp_load_relaxed (&peak.reached)();
}

DP_IN_CHILD void dp_peak_watch(int64_t threshold_bytes, void (*reached)(void))
{
    int64_t most = dp_load_relaxed(&peak.most_bytes);
    dp_store_relaxed(&peak.reached, reached);
    dp_store_relaxed(&peak.threshold_bytes, threshold_bytes);
    dp_store_relaxed(&dp_peak_step_bits, step_bits(threshold_bytes == INT64_MAX ? most : threshold_bytes));
    compare(dp_peak_in_use());
}

__attribute__((noinline)) void dp_peak_look(unsigned shard, int64_t n_bytes)
{
    if (n_bytes > dp_load_relaxed(&peak.highest[shard])) {
        dp_store_relaxed(&peak.highest[shard], n_bytes);
    } else {
        int64_t now = dp_clock_coarse_ns();
        if (now == dp_load_relaxed(&peak.looked_ns))
            return;
        dp_store_relaxed(&peak.looked_ns, now);
    }
    int64_t in_use = dp_peak_in_use();
    note(in_use);
    compare(in_use);
}
