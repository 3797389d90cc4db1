/* SPDX-License-Identifier: MIT */
/*
 * host/locks/chain.h - records of the kind `chain`: the stack of a waiting thread, the stack of the thread that held
 * the lock, and the time.
 *
 * All time of the mutex profile is also recorded here, divided among the waiters. So both kinds have the same total.
 */
#pragma once

#include "host/table/table.h"

#include <stdbool.h>

/* The waiter of time without a known waiter. */
#define DP_CHAIN_UNKNOWN UINT32_MAX

struct dp_chain {
    dp_record_id waiter; /* of the block profile, or DP_CHAIN_UNKNOWN */
    dp_record_id holder; /* of the mutex profile */
};

/*
 * Records that the waiter waited for ns while the holder held the lock. n: the number of unlocks. Context: hook, with
 * the countdown guarded; async-signal-safe.
 */
void dp_chain_add(dp_record_id waiter, dp_record_id holder, int64_t n, int64_t ns);

/* In tables of another process: whether the records of a chain exist; n: how many numbers it has. */
bool dp_chain_has_valid_ids(const dp_frame_id *ids, uint32_t n);

/* Reads the waiter and the holder of a record of this kind. False: it is [overflow]. */
bool dp_chain_of(const struct dp_record *, struct dp_chain *);
