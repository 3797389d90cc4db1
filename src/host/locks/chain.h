/* SPDX-License-Identifier: MIT */
/*
 * host/locks/chain.h - who waited for whom: a record of the kind `chain` is a waiting stack and the stack that made it
 * wait, with the time.
 *
 * Each time that the mutex profile counts is also counted here, once, divided among the waiters: so both kinds have the
 * same total.
 */
#pragma once

#include "host/table/table.h"

#include <stdbool.h>

/* The waiter of a time whose waiter is not known. */
#define DP_CHAIN_UNKNOWN UINT32_MAX

struct dp_chain {
    dp_record_id waiter; /* of the block profile, or DP_CHAIN_UNKNOWN */
    dp_record_id holder; /* of the mutex profile */
};

/*
 * The waiter waited for ns while the holder held the lock, which unlocked it n times. Context: hook, with the countdown
 * guarded; async-signal-safe.
 */
void dp_chain_add(dp_record_id waiter, dp_record_id holder, int64_t n, int64_t ns);

/* Both ends of a record of this kind. False: it is [overflow]. */
bool dp_chain_of(const struct dp_record *, struct dp_chain *);
