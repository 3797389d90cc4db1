/* SPDX-License-Identifier: MIT */
/*
 * host/locks/waiters.h - lists the stacks of threads that wait for contended locks, so that a holder can record for
 * whom it paid (chain.h).
 *
 * A list has seven entries; several locks may share it. If more threads wait, the listed ones get all of the time.
 * Context: hook; async-signal-safe. Times are CLOCK_MONOTONIC in ns.
 */
#pragma once

#include "host/locks/contended.h"
#include "host/table/table.h"

/* 1 + the index of an entry in its list; 0: the wait is not listed. */
typedef uint8_t dp_waiters_entry;

/* -ENOMEM: nothing is listed. Context: init. */
int dp_waiters_init(void);

/* Lists a wait with this slot and the record of its stack, until remove. 0: the list is full. */
dp_waiters_entry dp_waiters_add(dp_contended_slot slot, dp_record_id record, int64_t begin_ns);
void dp_waiters_remove(dp_contended_slot slot, dp_waiters_entry entry);

/* A waiter, and its part of the time that a holder pays, as a weight among the waiters of its slot. */
struct dp_waiter {
    dp_record_id record;
    uint32_t weight;
};

enum { DP_WAITERS_MOST = 7 };

/* A holder has paid for all waits of this slot up to now_ns: fills in the listed waiters. Returns their number. */
unsigned dp_waiters_pay(dp_contended_slot slot, int64_t now_ns, struct dp_waiter waiters[DP_WAITERS_MOST]);

/* Empties the lists in a forked child: one madvise. */
void dp_waiters_fork_child(void);
