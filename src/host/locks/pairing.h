/* SPDX-License-Identifier: MIT */
/*
 * host/locks/pairing.h - between the moment when a holder pays and the moment when its stack is known: the waiters that
 * it paid for. Context: hook; async-signal-safe.
 */
#pragma once

#include "host/locks/waiters.h"

/* Waiters of several groups, as of several kinds of waits for one lock. 0 ends the list. */
enum { DP_PAIRING_WAITERS = 2 * DP_WAITERS_MOST, DP_PAIRING_GROUPS = 16 };
struct dp_pairing {
    uint64_t at[DP_PAIRING_WAITERS]; /* record << 32 | group << 28 | weight */
};

static inline void dp_pairing_begin(struct dp_pairing *pairing)
{
    pairing->at[0] = 0;
}

/* Before the unlock: adds the waiters at this slot as one group. */
void dp_pairing_add(struct dp_pairing *pairing, unsigned group, dp_contended_slot slot, int64_t now_ns);

/* After it: divides ns, which the holder owes to a group, among its waiters, as chains of n unlocks each; without
 * a waiter, as one with an unknown waiter. */
void dp_pairing_note(const struct dp_pairing *pairing, unsigned group, dp_record_id holder, int64_t n, int64_t ns);
