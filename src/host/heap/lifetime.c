/* SPDX-License-Identifier: MIT */
/*
 * host/heap/lifetime.c - three counters for each heap record, beside those of the table, which stay as small as they
 * are. All atomics are relaxed: a reader may miss the newest events, and one event's three numbers may be split between
 * two reports.
 */
#include "host/heap/lifetime.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/process.h"

#include <errno.h>
#include <sys/mman.h>

enum { TEMPORARY_NS = 1000000 };

static struct {
    struct {
        _Atomic int64_t n_freed, n_temporary, us;
    } * at;
    size_t n;
    _Atomic bool on;
} sums;

int dp_heap_lifetime_init(size_t n_records)
{
    sums.at = dp_mem_table(n_records * sizeof *sums.at);
    sums.n = sums.at ? n_records : 0;
    return sums.at ? 0 : -ENOMEM;
}

void dp_heap_lifetime_tune(bool on)
{
    dp_store_relaxed(&sums.on, on && sums.n);
}

bool dp_heap_lifetime_is_kept(void)
{
    return sums.n != 0;
}

void dp_heap_lifetime_ended(const struct dp_heap_live_block *entry)
{
    if (!dp_load_relaxed(&sums.on) || entry->record >= sums.n || !entry->born_ns)
        return;
    int64_t ns = dp_clock_ns() - entry->born_ns, n = entry->objects;
    ns = ns > 0 ? ns : 0;
    /* Rounded up or down by chance, so that the sum is right for blocks that live some ns. */
    uint64_t chance = dp_hash_mix((uint64_t)entry->born_ns) % 1000;
    unsigned __int128 us = ((unsigned __int128)(uint64_t)ns * (uint64_t)n + chance) / 1000;
    dp_add_relaxed(&sums.at[entry->record].us, (int64_t)us);
    if (ns < TEMPORARY_NS)
        dp_add_relaxed(&sums.at[entry->record].n_temporary, n);
    dp_add_relaxed(&sums.at[entry->record].n_freed, n);
}

struct dp_heap_lifetime dp_heap_lifetime_read(dp_record_id id)
{
    if (id >= sums.n)
        return (struct dp_heap_lifetime){0};
    return (struct dp_heap_lifetime){dp_load_relaxed(&sums.at[id].n_freed), dp_load_relaxed(&sums.at[id].n_temporary),
                                     dp_load_relaxed(&sums.at[id].us)};
}

DP_IN_CHILD void dp_heap_lifetime_fork_child(void)
{
    if (sums.n)
        madvise(sums.at, sums.n * sizeof *sums.at, MADV_DONTNEED);
}
