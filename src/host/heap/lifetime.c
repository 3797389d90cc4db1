/* SPDX-License-Identifier: MIT */
/*
 * host/heap/lifetime.c - eight counters for each heap record, in an array apart from the table of records, so that they
 * cost no memory while they are off. All atomics are relaxed: a reader may miss the newest events, and the numbers of
 * one event may be split between two reports.
 */
#include "host/heap/lifetime.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/process.h"
#include "host/heap/inherited.h"
#include "host/thread/thread.h"

#include <errno.h>
#include <sys/mman.h>

enum { TEMPORARY_NS = 1000000, LATEST = 1024 };

/* From this size on glibc's malloc maps a block alone, and realloc moves its pages without a copy. */
#define MAPPED_BYTES ((uint64_t)128 << 10)

static struct {
    struct {
        _Atomic int64_t n_freed, n_temporary, us, temporary_bytes, n_moved, moved_bytes, n_outgrown, outgrown_bytes;
    } * at;
    size_t n;
    _Atomic bool on;
} sums;

/*
 * The record and the size of the block that each thread allocated last. Two threads can share an entry. One of them may
 * then see a block of the other, and if that has the same record, one outgrown block too many is counted.
 */
static struct {
    _Atomic dp_record_id record;
    _Atomic uint64_t size;
} latest[LATEST] DP_LARGE;

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

bool dp_heap_lifetime_is_mapped(void)
{
    return sums.n != 0;
}

void dp_heap_lifetime_began(dp_record_id record, uint32_t objects, uint64_t bytes)
{
    if (!dp_load_relaxed(&sums.on))
        return;
    unsigned i = dp_thread_self()->number % LATEST;
    dp_store_relaxed(&latest[i].record, record);
    dp_store_relaxed(&latest[i].size, bytes / objects);
}

static bool is_outgrown(dp_record_id record, uint64_t size)
{
    unsigned i = dp_thread_self()->number % LATEST;
    uint64_t larger = dp_load_relaxed(&latest[i].size);
    return dp_load_relaxed(&latest[i].record) == record && larger >= size + size / 4 && larger / 4 <= size &&
           larger > size;
}

void dp_heap_lifetime_moved(uintptr_t key, const struct dp_heap_live_block *entry)
{
    int64_t bytes = dp_heap_inherited_bytes(entry);
    bool is_mapped = (uint64_t)bytes / entry->objects >= MAPPED_BYTES && key % dp_page_bytes() == 2 * sizeof(size_t);
    if (!dp_load_relaxed(&sums.on) || entry->record >= sums.n || is_mapped)
        return;
    dp_add_relaxed(&sums.at[entry->record].n_moved, entry->objects);
    dp_add_relaxed(&sums.at[entry->record].moved_bytes, bytes);
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
    int64_t bytes = dp_heap_inherited_bytes(entry);
    if (ns < TEMPORARY_NS) {
        dp_add_relaxed(&sums.at[entry->record].n_temporary, n);
        dp_add_relaxed(&sums.at[entry->record].temporary_bytes, bytes);
    }
    if (is_outgrown(entry->record, (uint64_t)bytes / entry->objects)) {
        dp_add_relaxed(&sums.at[entry->record].n_outgrown, n);
        dp_add_relaxed(&sums.at[entry->record].outgrown_bytes, bytes);
    }
    dp_add_relaxed(&sums.at[entry->record].n_freed, n);
}

struct dp_heap_lifetime dp_heap_lifetime_read(dp_record_id id)
{
    if (id >= sums.n)
        return (struct dp_heap_lifetime){0};
    return (struct dp_heap_lifetime){.n_freed = dp_load_relaxed(&sums.at[id].n_freed),
                                     .n_temporary = dp_load_relaxed(&sums.at[id].n_temporary),
                                     .us = dp_load_relaxed(&sums.at[id].us),
                                     .temporary_bytes = dp_load_relaxed(&sums.at[id].temporary_bytes),
                                     .n_moved = dp_load_relaxed(&sums.at[id].n_moved),
                                     .moved_bytes = dp_load_relaxed(&sums.at[id].moved_bytes),
                                     .n_outgrown = dp_load_relaxed(&sums.at[id].n_outgrown),
                                     .outgrown_bytes = dp_load_relaxed(&sums.at[id].outgrown_bytes)};
}

DP_IN_CHILD void dp_heap_lifetime_fork_child(void)
{
    if (sums.n)
        madvise(sums.at, sums.n * sizeof *sums.at, MADV_DONTNEED);
}
