/* SPDX-License-Identifier: MIT */
/*
 * host/locks/contended.h - finds out which holder a waiting time is counted for: one word for each contended lock.
 *
 * A waiter enters with the start time of its wait and leaves with the end time. In between, each holder that unlocks
 * takes from the word the waiting time since the last unlock. contended.c has the algebra. Context: hook;
 * async-signal-safe. Times are CLOCK_MONOTONIC in ns.
 */
#pragma once

#include <deltaprof/locks.h>

#include <stdint.h>

/* The number of a slot of the table, from 1 on; 0: none. */
typedef uint32_t dp_contended_slot;

/* Sets of locks and groups of futex words: contended.c. Slots are 1 to DP_CONTENDED_SLOTS. */
enum {
    DP_CONTENDED_WAYS = 4,
    DP_CONTENDED_GROUPS = 512,
    DP_CONTENDED_GROUP_WAYS = 4 * DP_CONTENDED_WAYS,
    DP_CONTENDED_SLOTS = DELTAPROF_LOCK_SETS * DP_CONTENDED_WAYS + DP_CONTENDED_GROUPS * DP_CONTENDED_GROUP_WAYS,
};

/* Kinds of waits with a holder: the first of enum deltaprof_lock_kind, and GIL as the last here; 0 is unused. */
#define DP_CONTENDED_KINDS 5

/* Maps the table. -ENOMEM: not mapped; no wait gets a slot then. Context: init. */
int dp_contended_init(void);

/* A wait of this kind for lock begins. 0: no room (counted); the holder will not be known. */
dp_contended_slot dp_contended_enter(const void *lock, unsigned kind, int64_t begin_ns);

/* Time that a thread owes to waits of one class (futex_class.h) at a futex word. */
#define DP_FUTEX_CLASS_BITS 12
#define DP_FUTEX_CLASS_MASK ((UINT64_C(1) << DP_FUTEX_CLASS_BITS) - 1)
struct dp_contended_debt {
    int64_t ns;
    unsigned class;
    dp_contended_slot slot;
};

/* The same for a futex word. taken: a debt of another word that had to make room, for [unknown holder]; ns 0: none. */
dp_contended_slot dp_contended_enter_futex(const void *word, unsigned class, int64_t begin_ns,
                                           struct dp_contended_debt *taken);

/*
 * The wait ended; begin_ns as at enter. timed_out: the time that is owed stays for the next holder that unlocks. Both
 * return the time without a holder, for [hand-over]. They may move *end_ns forward, to the time up to which this wait
 * was already paid for.
 */
int64_t dp_contended_acquired(dp_contended_slot slot, int64_t begin_ns, int64_t *end_ns);
int64_t dp_contended_timed_out(dp_contended_slot slot, int64_t begin_ns, int64_t *end_ns);
/* Cancels the wait, as if it had not entered. Returns the time that holders paid for it already: it was waiting time.
 */
int64_t dp_contended_cancel(dp_contended_slot slot, int64_t begin_ns);

/*
 * A holder unlocks: adds the time that it owes to the waits of each kind to owed_ns[kind], and stores their slot.
 * Returns the sum.
 */
int64_t dp_contended_unlock(const void *lock, int64_t owed_ns[DP_CONTENDED_KINDS],
                            dp_contended_slot slots[DP_CONTENDED_KINDS]);

/* A thread wakes waiters of a futex word: fills in what it owes to each class of them, at most n_most. How many. */
unsigned dp_contended_wake(const void *word, struct dp_contended_debt *debts, unsigned n_most);

/* The classes of waits that a futex word's slots are for, at most n_most; also of waits that have ended. How many. */
unsigned dp_contended_classes(const void *word, unsigned *classes, unsigned n_most);

/* Clears the table in a forked child, where no thread waits; only stores and one madvise. */
void dp_contended_fork_child(void);
