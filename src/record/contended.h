/* SPDX-License-Identifier: MIT */
/*
 * record/contended.h - who is owed the blame for waiting: one word for each lock that somebody waits for.
 *
 * A waiter enters with the time at which its wait began and leaves with the time at which it ended; in between, every
 * holder that lets go takes from the word the waiting time that passed since the last one did. contended.c has the
 * algebra. Context: hook; async-signal-safe. Times are CLOCK_MONOTONIC in ns.
 */
#pragma once

#include <stdint.h>

/* A word's place in the table, for the one wait that entered there; 0: none. */
typedef uint32_t dp_contended_place;

#define DP_CONTENDED_KINDS 4 /* kinds of waits with a holder, below this in enum deltaprof_lock_kind; 0 is unused */

/* Maps the table. -ENOMEM: not mapped; every wait is then without a place. Context: init. */
int dp_contended_init(void);

/* A wait of this kind for lock begins. 0: no room (counted), its holder will not be known. */
dp_contended_place dp_contended_enter(const void *lock, unsigned kind, int64_t begin_ns);

/*
 * It ended; begin_ns as at enter. timed_out: what is owed stays for the next holder to let go. Both return what is owed
 * by nobody, for [hand-over], and may move *end_ns ahead, to the moment up to which this wait has already been paid
 * for.
 */
int64_t dp_contended_acquired(dp_contended_place place, int64_t begin_ns, int64_t *end_ns);
int64_t dp_contended_timed_out(dp_contended_place place, int64_t begin_ns, int64_t *end_ns);
/* It was no wait: as if it had not entered. */
void dp_contended_cancel(dp_contended_place place, int64_t begin_ns);

/* A holder lets go of lock: adds what it owes to the waits of each kind to owed_ns[kind]. Returns the sum. */
int64_t dp_contended_release(const void *lock, int64_t owed_ns[DP_CONTENDED_KINDS]);

/* Nobody waits in a forked child; only stores and one madvise. */
void dp_contended_fork_child(void);
