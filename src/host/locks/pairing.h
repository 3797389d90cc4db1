/* SPDX-License-Identifier: MIT */
/*
 * host/locks/pairing.h - the waiters that a holder has paid for (contended.h), from the unlock until the holder's stack
 * is captured. Then each waiter and the holder become a record of a chain. Context: hook; async-signal-safe.
 */
#pragma once

#include "host/locks/waiters.h"

/* A list of waiters in groups. A group is a kind of wait for a lock, or a class of a futex. 0 ends the list. */
enum { DP_PAIRING_WAITERS = 2 * DP_WAITERS_MOST, DP_PAIRING_GROUPS = 16 };
struct dp_pairing {
    uint64_t at[DP_PAIRING_WAITERS]; /* record << 32 | group << 28 | weight */
};

static inline void dp_pairing_begin(struct dp_pairing *pairing)
{
    pairing->at[0] = 0;
}

/*
 * Before the unlock: adds the waiters of a slot as a group; none if another lock has the slot by now, since the list
 * may be of its waiters.
 */
void dp_pairing_add(struct dp_pairing *pairing, unsigned group, const struct dp_contended_place *place, int64_t now_ns);

/*
 * After the unlock: divides ns, the time paid for a group, among its waiters, and records each part as a chain of n
 * unlocks. Without a waiter it records one chain with an unknown waiter.
 */
void dp_pairing_note(const struct dp_pairing *pairing, unsigned group, dp_record_id holder, int64_t n, int64_t ns);
