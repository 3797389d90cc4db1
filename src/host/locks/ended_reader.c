/* SPDX-License-Identifier: MIT */
/*
 * host/locks/ended_reader.c - a row for each of N locks, found by the lock's address. A lock with the same row replaces
 * it.
 *
 * The second word names the thread, and repeats the low half of the address: a reader that finds the words of two
 * writers takes the row for empty. Relaxed: a thread's id points to nothing that must be seen with it.
 *
 * A thread that ends with a lock cannot unlock it any more, so a row stays true until the lock is destroyed. It is
 * wrong if another thread unlocks for the one that ended, which POSIX forbids, or if the memory of a lock that was
 * never unlocked becomes a new one without pthread_rwlock_destroy.
 */
#include "host/locks/ended_reader.h"

#include "base/atomic.h"
#include "base/hash.h"
#include "base/mem.h"

enum { N = 256 };

static struct row {
    _Atomic uintptr_t lock;
    _Atomic uint64_t thread; /* id << 32 | low half of the lock's address */
} rows[N] DP_LARGE;
static _Atomic uint32_t n_noted; /* 0: no row was ever filled */

static struct row *row_of(uintptr_t lock)
{
    return &rows[dp_hash_mix(lock) % N];
}

void dp_ended_reader_note(uintptr_t lock, int32_t tid)
{
    struct row *row = row_of(lock);
    dp_store_relaxed(&row->lock, lock);
    dp_store_relaxed(&row->thread, (uint64_t)(uint32_t)tid << 32 | (uint32_t)lock);
    dp_add_relaxed(&n_noted, 1);
}

void dp_ended_reader_drop(uintptr_t lock)
{
    if (dp_load_relaxed(&n_noted) && dp_load_relaxed(&row_of(lock)->lock) == lock)
        dp_store_relaxed(&row_of(lock)->lock, 0);
}

int32_t dp_ended_reader_find(uintptr_t lock)
{
    const struct row *row = row_of(lock);
    uint64_t thread = dp_load_relaxed(&row->thread);
    return lock && dp_load_relaxed(&row->lock) == lock && (uint32_t)thread == (uint32_t)lock ? (int32_t)(thread >> 32)
                                                                                             : 0;
}
