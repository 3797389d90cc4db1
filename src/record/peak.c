/* SPDX-License-Identifier: MIT */
/*
 * record/peak.c - compares the bytes in use with a threshold, seldom enough for the sampled path.
 *
 * The sum is striped over shards, and to add them up for each sample would be too slow where every allocation is one.
 * So a thread looks at the sum only when its own shard crosses a multiple of a step, which is below 1/256 of the
 * threshold, and the process looks once a tick of the coarse clock (1 to 4 ms) at most. What the shards gained since
 * their last multiples, at most 16 steps, may be missed.
 *
 * All atomics are relaxed: a look that reads an old threshold is one look too many or too few. The thread that takes
 * the threshold off is the only one that calls `reached`.
 */
#include "record/peak.h"

#include "base/clock.h"
#include "base/process.h"

enum { STEP_BITS_LEAST = 12, STEPS_BITS = 8 };

_Atomic uint8_t dp_peak_step_bits = 62;

static struct {
    _Atomic int64_t threshold_bytes;
    _Atomic int64_t looked_ns;
    void (*_Atomic reached)(void); /* the same one always */
} peak = {.threshold_bytes = INT64_MAX};

DP_IN_CHILD int64_t dp_peak_in_use(void)
{
    return dp_tally_read(DP_TALLY_INUSE);
}

static void compare(void)
{
    int64_t threshold = dp_load_relaxed(&peak.threshold_bytes);
    if (threshold != INT64_MAX && dp_peak_in_use() >= threshold &&
        dp_cas_relaxed(&peak.threshold_bytes, &threshold, INT64_MAX))
        dp_load_relaxed (&peak.reached)();
}

DP_IN_CHILD void dp_peak_watch(int64_t threshold_bytes, void (*reached)(void))
{
    unsigned bits = STEP_BITS_LEAST;
    while (bits < 62 && threshold_bytes >> (bits + STEPS_BITS))
        bits++;
    dp_store_relaxed(&peak.reached, reached);
    dp_store_relaxed(&peak.threshold_bytes, threshold_bytes);
    dp_store_relaxed(&dp_peak_step_bits, (uint8_t)bits);
    compare();
}

__attribute__((noinline)) void dp_peak_look(void)
{
    if (dp_load_relaxed(&peak.threshold_bytes) == INT64_MAX)
        return;
    int64_t now = dp_clock_coarse_ns();
    if (now == dp_load_relaxed(&peak.looked_ns))
        return;
    dp_store_relaxed(&peak.looked_ns, now);
    compare();
}
