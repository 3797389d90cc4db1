/* SPDX-License-Identifier: MIT */
/*
 * host/locks/waiters.h - the stacks of the threads that wait for a contended lock, so that the holder can name them.
 *
 * A list has room for seven waiters. If more wait, the first seven stand for all. Context: hook;
 * async-signal-safe. Times are CLOCK_MONOTONIC in ns.
 */
#pragma once

#include "host/locks/contended.h"
#include "host/table/table.h"

/* A number in the list + 1; 0: the wait is not listed. */
typedef uint8_t dp_waiters_entry;

/* -ENOMEM: nothing is listed. Context: init. */
int dp_waiters_init(void);

/* A wait at this slot, with the record of its stack; and its end. */
dp_waiters_entry dp_waiters_add(dp_contended_slot slot, dp_record_id record, int64_t begin_ns);
void dp_waiters_remove(dp_contended_slot slot, dp_waiters_entry entry);

/* A waiter, and its part of the time that a holder owes. */
struct dp_waiter {
    dp_record_id record;
    uint32_t weight;
};

enum { DP_WAITERS_MOST = 7 };

/* A holder pays for all waits at this slot up to now_ns: fills in the listed waiters. Returns their number. */
unsigned dp_waiters_pay(dp_contended_slot slot, int64_t now_ns, struct dp_waiter waiters[DP_WAITERS_MOST]);

/* Empties the lists in a forked child: one madvise. */
void dp_waiters_fork_child(void);
