/* SPDX-License-Identifier: MIT */
/*
 * host/locks/last_unlock.c - a row for each of N locks, found by the lock's address. A lock with the same row replaces
 * it.
 *
 * The second word names the record, and repeats the low half of the address: a reader that finds the words of two
 * writers takes the row for empty. [UNLOCKED] It is stored with release and read with acquire: a reader that finds a
 * record's id finds the record made.
 */
#include "host/locks/last_unlock.h"

#include "base/atomic.h"
#include "base/hash.h"
#include "base/mem.h"

enum { N = 1024 };

static struct row {
    _Atomic uintptr_t lock;
    _Atomic uint64_t record; /* id << 32 | low half of the lock's address */
} rows[N] DP_LARGE;

void dp_last_unlock_note(uintptr_t lock, dp_record_id record)
{
    struct row *row = &rows[dp_hash_mix(lock) % N];
    dp_store_relaxed(&row->lock, lock);
    dp_store_release(&row->record, (uint64_t)record << 32 | (uint32_t)lock); /* [UNLOCKED] */
}

dp_record_id dp_last_unlock_find(uintptr_t lock)
{
    struct row *row = &rows[dp_hash_mix(lock) % N];
    uint64_t record = dp_load_acquire(&row->record); /* [UNLOCKED] */
    return dp_load_relaxed(&row->lock) == lock && (uint32_t)record == (uint32_t)lock ? (dp_record_id)(record >> 32) : 0;
}
