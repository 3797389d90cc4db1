/* SPDX-License-Identifier: MIT */
/*
 * host/cpu/addresses.c - two hash tables of fixed size, {record, distance} -> {samples, time}. One is filled; the other
 * one keeps what was counted before.
 *
 * A program runs through more addresses than a process can keep for its life, and a profile needs those of its own
 * window only. So when a table is nearly full, the older one is cleared and filled next. What a report had not
 * delivered of the cleared one is still in its record: those samples appear at their function.
 *
 * 1. A slot's key goes from 0 to its value once, by compare-and-swap; a sample looks at PROBES slots.
 * 2. A handler notes in `users` that it fills a table and then looks whether the table is still the present one. Only a
 *    table that is not, and that no handler fills, is cleared [USERS]: else a count could go to another address.
 * 3. `generation` is odd while a table is cleared. A reader compares it before and after, and drops what it read if it
 *    changed [GENERATION].
 */
#include "host/cpu/addresses.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/stats.h"

#include <sys/mman.h>

enum { PROBES = 16, SLOTS_LEAST = 256 };

struct slot {
    _Atomic uint64_t key;
    _Atomic int64_t n, ns; /* relaxed: a reader may find one event's time in the next report */
};

static struct {
    struct slot *_Atomic slots; /* [SLOTS]: both tables; NULL: no memory */
    uint32_t mask;
    _Atomic uint32_t present;
    _Atomic uint32_t n_used; /* of the present one; relaxed */
    struct {
        _Atomic uint32_t users, generation;
    } of[DP_CPU_ADDRESS_TABLES];
} addresses;

static size_t n_bytes(void)
{
    return DP_CPU_ADDRESS_TABLES * ((size_t)addresses.mask + 1) * sizeof(struct slot);
}

void dp_cpu_addresses_init(void)
{
    uint32_t n = SLOTS_LEAST;
    if (dp_load_relaxed(&addresses.slots))
        return;
    while (n < dp_table_most(DP_KIND_CPU))
        n *= 2;
    addresses.mask = n - 1;
    struct slot *slots = dp_mem_map(n_bytes());
    dp_store_relaxed(&addresses.of[0].generation, 2); /* of the other one 0: it is not read before it is filled */
    dp_store_release(&addresses.slots, slots);        /* [SLOTS] */
}

static struct slot *slot_of(struct slot *slots, unsigned table, uint32_t slot)
{
    return &slots[table * ((size_t)addresses.mask + 1) + (slot & addresses.mask)];
}

/* NULL: no room. */
static struct slot *find(struct slot *slots, unsigned table, uint64_t key)
{
    uint32_t at = (uint32_t)dp_hash_mix(key);
    for (uint32_t i = 0; i < PROBES; i++) {
        struct slot *slot = slot_of(slots, table, at + i);
        uint64_t seen = dp_load_relaxed(&slot->key);
        if (!seen && dp_cas_relaxed(&slot->key, &seen, key)) {
            dp_add_relaxed(&addresses.n_used, 1);
            return slot;
        }
        if (seen == key) /* a compare-and-swap that failed left the winner's */
            return slot;
    }
    return NULL;
}

static bool add(struct slot *slots, unsigned table, uint64_t key, int64_t n, int64_t ns)
{
    struct slot *slot = find(slots, table, key);
    if (!slot)
        return false;
    dp_add_relaxed(&slot->ns, ns);
    dp_add_relaxed(&slot->n, n);
    return true;
}

void dp_cpu_address_add(dp_record_id record, uint32_t distance, int64_t n, int64_t ns)
{
    struct slot *slots = dp_load_acquire(&addresses.slots); /* [SLOTS] */
    if (!slots || !record || distance > DP_CPU_DISTANCE_MAX)
        return;
    unsigned table = dp_load_total(&addresses.present);
    dp_add_acq_rel(&addresses.of[table].users, 1); /* [USERS] */
    bool added =
        dp_load_total(&addresses.present) == table && add(slots, table, (uint64_t)record << 32 | distance, n, ns);
    dp_sub_release(&addresses.of[table].users, 1); /* [USERS] */
    if (!added)
        dp_stats_add(DP_STAT_CPU_ADDRESSES, (uint64_t)n);
}

void dp_cpu_addresses_turn(void)
{
    struct slot *slots = dp_load_acquire(&addresses.slots); /* [SLOTS] */
    unsigned other = !dp_load_relaxed(&addresses.present);
    if (!slots || dp_load_relaxed(&addresses.n_used) <= addresses.mask / 2 ||
        dp_load_acquire(&addresses.of[other].users)) /* [USERS] */
        return;
    dp_add_acq_rel(&addresses.of[other].generation, 1); /* [GENERATION] */
    for (uint32_t i = 0; i <= addresses.mask; i++) {
        struct slot *slot = slot_of(slots, other, i);
        if (!dp_load_relaxed(&slot->key))
            continue;
        dp_store_relaxed(&slot->key, 0);
        dp_store_relaxed(&slot->n, 0);
        dp_store_relaxed(&slot->ns, 0);
    }
    dp_add_acq_rel(&addresses.of[other].generation, 1); /* [GENERATION] */
    dp_store_relaxed(&addresses.n_used, 0);
    dp_swap_total(&addresses.present, other); /* [USERS] */
}

/* ---- for reports ---- */

uint32_t dp_cpu_addresses_slots(void)
{
    return dp_load_acquire(&addresses.slots) ? addresses.mask + 1 : 0; /* [SLOTS] */
}

uint32_t dp_cpu_addresses_begin(unsigned table)
{
    uint32_t generation = dp_load_acquire(&addresses.of[table].generation); /* [GENERATION] */
    return generation & 1 ? 0 : generation;
}

bool dp_cpu_addresses_read(unsigned table, uint32_t at, struct dp_cpu_address *address)
{
    const struct slot *slot = slot_of(dp_load_relaxed(&addresses.slots), table, at);
    uint64_t key = dp_load_relaxed(&slot->key);
    *address = (struct dp_cpu_address){.record = (uint32_t)(key >> 32),
                                       .distance = (uint32_t)key,
                                       .n = dp_load_relaxed(&slot->n),
                                       .ns = dp_load_relaxed(&slot->ns)};
    return key != 0;
}

bool dp_cpu_addresses_end(unsigned table, uint32_t generation)
{
    dp_fence_acquire(); /* [GENERATION] */
    return dp_load_relaxed(&addresses.of[table].generation) == generation;
}

DP_IN_CHILD void dp_cpu_addresses_fork_child(void)
{
    struct slot *slots = dp_load_relaxed(&addresses.slots);
    if (!slots)
        return;
    for (unsigned table = 0; table < DP_CPU_ADDRESS_TABLES; table++) {
        dp_store_relaxed(&addresses.of[table].users, 0);
        uint32_t generation = dp_load_relaxed(&addresses.of[table].generation);
        dp_store_relaxed(&addresses.of[table].generation, (generation | 1) + 1);
    }
    dp_store_relaxed(&addresses.present, 0);
    dp_store_relaxed(&addresses.n_used, 0);
    madvise(slots, n_bytes(), MADV_DONTNEED);
}
