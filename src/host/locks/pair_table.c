/* SPDX-License-Identifier: MIT */
/*
 * host/locks/pair_table.c - sets of eight pairs, found by the hash of waiter and holder.
 *
 * What stays. A full set keeps its heavy pairs: a pair that is not there takes its time from the credit of the entry
 * with the least; when that credit is used up, the new pair takes the entry. A pair's credit is what it has gathered
 * itself, so a pair with more time than all small ones that pass by stays, whatever their number. The time of a pair is
 * never more than it was: time of pairs without an entry is lost, and counted (PAIRS_LOST).
 *
 * [PAIR] A set has a sequence number, odd while a thread changes the set. A thread changes it from even to odd by a CAS
 * (acquire) and back by a store (release), so sets have one writer at a time. A thread that finds it odd tries again,
 * TRIES times, and then gives up: its pair is counted as lost. So no thread waits for another that was stopped inside;
 * a signal handler does not either. A reader takes an entry if the number was even and the same before and after.
 *
 * A pair's records exist before the pair: the ids are stored after the records were made, and the release on the set's
 * number passes both on.
 */
#include "host/locks/pair_table.h"

#include "base/atomic.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/stats.h"

#include <errno.h>
#include <sys/mman.h>

enum { WAYS = 8, SETS = DP_PAIRS_MOST / WAYS, TRIES = 64, READ_TRIES = 64 };

struct entry {
    _Atomic uint64_t key; /* waiter << 32 | holder; 0: free */
    _Atomic int64_t n, ns, credit;
    _Atomic uint32_t generation;
};

struct set {
    _Alignas(64) _Atomic uint32_t sequence;
    struct entry at[WAYS];
};

static struct set *sets;
static _Atomic bool used; /* since the fork; relaxed: for the thread that writes, or its child */

int dp_pairs_init(void)
{
    if (!sets)
        sets = dp_mem_table(SETS * sizeof *sets);
    return sets ? 0 : -ENOMEM;
}

static bool begin_change(struct set *set)
{
    for (int i = 0; i < TRIES; i++) {
        uint32_t sequence = dp_load_relaxed(&set->sequence);
        if (!(sequence & 1) && dp_cas_acquire(&set->sequence, &sequence, sequence + 1)) { /* [PAIR] */
            dp_fence_release(); /* [PAIR] a reader that finds a change finds the odd number */
            return true;
        }
    }
    return false;
}

static void end_change(struct set *set)
{
    dp_store_release(&set->sequence, dp_load_relaxed(&set->sequence) + 1); /* [PAIR] */
}

/* The entry of key, else the one that it may take: a free one, or the one with the least credit. */
static struct entry *entry_for(struct set *set, uint64_t key)
{
    struct entry *least = &set->at[0];
    for (struct entry *e = set->at; e < set->at + WAYS; e++) {
        if (dp_load_relaxed(&e->key) == key)
            return e;
        if (dp_load_relaxed(&e->credit) < dp_load_relaxed(&least->credit))
            least = e;
    }
    return least;
}

static void add(struct entry *e, int64_t n, int64_t ns)
{
    dp_store_relaxed(&e->n, dp_load_relaxed(&e->n) + n);
    dp_store_relaxed(&e->ns, dp_load_relaxed(&e->ns) + ns);
    dp_store_relaxed(&e->credit, dp_load_relaxed(&e->credit) + ns);
}

/* Returns how many waits are lost by it. */
static int64_t note(struct entry *e, uint64_t key, int64_t n, int64_t ns)
{
    uint64_t found = dp_load_relaxed(&e->key);
    int64_t credit = dp_load_relaxed(&e->credit), lost = 0;
    if (found != key) {
        if (found && credit >= ns) {
            dp_store_relaxed(&e->credit, credit - ns);
            return n;
        }
        lost = dp_load_relaxed(&e->n);
        dp_store_relaxed(&e->generation, dp_load_relaxed(&e->generation) + 1);
        dp_store_relaxed(&e->key, key);
        dp_store_relaxed(&e->n, 0);
        dp_store_relaxed(&e->ns, 0);
        dp_store_relaxed(&e->credit, 0);
    }
    add(e, n, ns);
    return lost;
}

void dp_pairs_note(dp_record_id waiter, dp_record_id holder, int64_t n, int64_t ns)
{
    uint64_t key = (uint64_t)waiter << 32 | holder;
    if (!sets || !key)
        return;
    dp_store_relaxed(&used, true);
    struct set *set = &sets[dp_hash_mix(key) % SETS];
    int64_t lost = n;
    if (begin_change(set)) {
        lost = note(entry_for(set, key), key, n, ns);
        end_change(set);
    }
    if (lost)
        dp_stats_add(DP_STAT_PAIRS_LOST, (uint64_t)lost);
}

bool dp_pairs_read(unsigned i, struct dp_pair *pair)
{
    if (!sets)
        return false;
    struct set *set = &sets[i / WAYS];
    const struct entry *e = &set->at[i % WAYS];
    for (int tries = 0; tries < READ_TRIES; tries++) {
        uint32_t sequence = dp_load_acquire(&set->sequence); /* [PAIR] */
        if (sequence & 1)
            continue;
        uint64_t key = dp_load_relaxed(&e->key);
        *pair = (struct dp_pair){.waiter = (dp_record_id)(key >> 32),
                                 .holder = (dp_record_id)key,
                                 .generation = dp_load_relaxed(&e->generation),
                                 .at = i,
                                 .n = dp_load_relaxed(&e->n),
                                 .ns = dp_load_relaxed(&e->ns)};
        dp_fence_acquire();
        if (dp_load_relaxed(&set->sequence) == sequence)
            return key != 0;
    }
    return false;
}

DP_IN_CHILD void dp_pairs_fork_child(void)
{
    if (!dp_load_relaxed(&used))
        return;
    dp_store_relaxed(&used, false);
    madvise(sets, SETS * sizeof *sets, MADV_DONTNEED);
}
