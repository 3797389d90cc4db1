/* SPDX-License-Identifier: MIT */
/*
 * host/heap/peak.c - keeps the most bytes that were in use, has the records copied there (peak_copy.h), and compares
 * the bytes with a threshold, seldom enough for the sampled path.
 *
 * The sum is striped over shards, and to add them up for each sample would be too slow where every allocation is one.
 * So a thread looks at the sum only when its own shard crosses a multiple of a step: 4 KiB, or below 1/256 of the
 * threshold or of the most until now. If it is the multiple at which the shard looked last, the process looks once a
 * tick of the coarse clock (1 to 4 ms) at most: a loop that allocates and frees at a multiple does not look each time.
 * What the shards gained since their last multiples, at most 16 steps, may be missed; in a program of one thread less
 * than a step.
 *
 * The records are copied when a tenth more is in use than at the last copy. So a copy never lacks more than a tenth of
 * the peak, and a heap that grows from 4 KiB to 4 GiB is copied 145 times.
 *
 * All atomics are relaxed: a look that reads an old threshold is one look too many or too few. The thread that takes
 * the threshold off is the only one that calls `reached`.
 */
#include "host/heap/peak.h"

#include "base/clock.h"
#include "base/process.h"
#include "host/heap/peak_copy.h"

enum { STEP_BITS_LEAST = 12, STEPS_BITS = 8 };

_Atomic uint8_t dp_heap_peak_step_bits = STEP_BITS_LEAST;

static struct {
    _Atomic int64_t threshold_bytes;
    _Atomic int64_t looked_ns;
    void (*_Atomic reached)(void); /* the same one always */
    _Atomic int64_t most_bytes, most_ns;
    _Atomic int64_t copy_bytes;           /* from here on the records are copied */
    _Atomic int64_t looked_at[DP_SHARDS]; /* the multiple of the step at each shard's last look */
} peak = {.threshold_bytes = INT64_MAX, .copy_bytes = 1};

DP_IN_CHILD int64_t dp_heap_peak_in_use(void)
{
    return dp_tally_read(DP_TALLY_INUSE);
}

int64_t dp_heap_peak_most(int64_t *wall_ns)
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

static void raise_most(int64_t in_use)
{
    int64_t most = dp_load_relaxed(&peak.most_bytes);
    if (in_use <= most || !dp_cas_relaxed(&peak.most_bytes, &most, in_use))
        return;
    dp_store_relaxed(&peak.most_ns, dp_clock_wall_coarse_ns());
    if (dp_load_relaxed(&peak.threshold_bytes) == INT64_MAX)
        dp_store_relaxed(&dp_heap_peak_step_bits, step_bits(in_use));
}

static void compare(int64_t in_use)
{
    int64_t threshold = dp_load_relaxed(&peak.threshold_bytes);
    if (threshold != INT64_MAX && in_use >= threshold && dp_cas_relaxed(&peak.threshold_bytes, &threshold, INT64_MAX))
        dp_load_relaxed (&peak.reached)();
}

DP_IN_CHILD void dp_heap_peak_watch(int64_t threshold_bytes, void (*reached)(void))
{
    int64_t most = dp_load_relaxed(&peak.most_bytes);
    dp_store_relaxed(&peak.reached, reached);
    dp_store_relaxed(&peak.threshold_bytes, threshold_bytes);
    dp_store_relaxed(&dp_heap_peak_step_bits, step_bits(threshold_bytes == INT64_MAX ? most : threshold_bytes));
    compare(dp_heap_peak_in_use());
}

static void copy(int64_t in_use)
{
    if (in_use < dp_load_relaxed(&peak.copy_bytes))
        return;
    int64_t copied = dp_heap_peak_copy_make();
    if (copied > 0)
        dp_store_relaxed(&peak.copy_bytes, copied + copied / 10 + 1);
}

DP_IN_CHILD void dp_heap_peak_fork_child(void)
{
    int64_t inherited = dp_heap_peak_in_use();
    dp_store_relaxed(&peak.copy_bytes, inherited + inherited / 10 + 1);
    dp_heap_peak_copy_fork_child();
}

__attribute__((noinline)) void dp_heap_peak_look(unsigned shard, int64_t n_bytes)
{
    int64_t multiple = n_bytes >> dp_load_relaxed(&dp_heap_peak_step_bits);
    if (multiple != dp_load_relaxed(&peak.looked_at[shard])) {
        dp_store_relaxed(&peak.looked_at[shard], multiple);
    } else {
        int64_t now = dp_clock_coarse_ns();
        if (now == dp_load_relaxed(&peak.looked_ns))
            return;
        dp_store_relaxed(&peak.looked_ns, now);
    }
    int64_t in_use = dp_heap_peak_in_use();
    raise_most(in_use);
    copy(in_use);
    compare(in_use);
}
