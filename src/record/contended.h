/* SPDX-License-Identifier: MIT */
/*
 * record/contended.h - finds out which holder a waiting time is counted for: one word for each contended lock.
 *
 * A waiter enters with the start time of its wait and leaves with the end time. In between, each holder that unlocks
 * takes from the word the waiting time since the last unlock. contended.c has the algebra. Context: hook;
 * async-signal-safe. Times are CLOCK_MONOTONIC in ns.
 */
#pragma once

#include <stdint.h>

/* The place in the table of the word that a wait entered; 0: none. */
typedef uint32_t dp_contended_place;

#define DP_CONTENDED_KINDS 4 /* kinds of waits with a holder, below this in enum deltaprof_lock_kind; 0 is unused */

/* Maps the table. -ENOMEM: not mapped; no wait gets a place then. Context: init. */
int dp_contended_init(void);

/* A wait of this kind for lock begins. 0: no room (counted); the holder will not be known. */
dp_contended_place dp_contended_enter(const void *lock, unsigned kind, int64_t begin_ns);

/*
 * The wait ended; begin_ns as at enter. timed_out: the time that is owed stays for the next holder that unlocks. Both
 * return the time without a holder, for [hand-over]. They may move *end_ns forward, to the time up to which this wait
 * was already paid for.
 */
int64_t dp_contended_acquired(dp_contended_place place, int64_t begin_ns, int64_t *end_ns);
int64_t dp_contended_timed_out(dp_contended_place place, int64_t begin_ns, int64_t *end_ns);
/* Cancels the wait, as if it had not entered. */
void dp_contended_cancel(dp_contended_place place, int64_t begin_ns);

/* A holder unlocks: adds the time that it owes to the waits of each kind to owed_ns[kind]. Returns the sum. */
int64_t dp_contended_release(const void *lock, int64_t owed_ns[DP_CONTENDED_KINDS]);

/* Clears the table in a forked child, where no thread waits; only stores and one madvise. */
void dp_contended_fork_child(void);
