/* SPDX-License-Identifier: MIT */
/*
 * host/locks/contended.h - divides the time that threads wait for a lock among the threads that held it meanwhile. It
 * uses one word for each contended lock.
 *
 * A waiter adds the start time of its wait to the word, and later the end time. Meanwhile, each holder that unlocks
 * accounts for ("pays") the waiting time since the last unlock; time not paid yet is "owed". contended.c has the
 * algebra. Context: hook; async-signal-safe. Times are CLOCK_MONOTONIC in ns.
 */
#pragma once

#include <deltaprof/locks.h>

#include <stdbool.h>
#include <stdint.h>

/* The number of a slot in the table, from 1 to DP_CONTENDED_SLOTS; 0: none. */
typedef uint32_t dp_contended_slot;

/* The size of the table: sets of slots for locks, then groups of slots for futex words (contended.c). */
enum {
    DP_CONTENDED_WAYS = 4,
    DP_CONTENDED_GROUPS = 512,
    DP_CONTENDED_GROUP_WAYS = 4 * DP_CONTENDED_WAYS,
    DP_CONTENDED_SLOTS = DELTAPROF_LOCK_SETS * DP_CONTENDED_WAYS + DP_CONTENDED_GROUPS * DP_CONTENDED_GROUP_WAYS,
};

/* Kinds of waits with a holder: 1 to 3 as in enum deltaprof_lock_kind, 4 for GIL; 0 is unused. */
#define DP_CONTENDED_KINDS 5

/* Maps the table. -ENOMEM: no wait will get a slot. Context: init. */
int dp_contended_init(void);

/* Begins a wait of this kind for lock. 0: no free slot (counted); the holder will not be known. */
dp_contended_slot dp_contended_enter(const void *lock, unsigned kind, int64_t begin_ns);

/* Time that is owed to the waits of one class (futex_class.h) for a futex word. */
#define DP_FUTEX_CLASS_BITS 12
#define DP_FUTEX_CLASS_MASK ((UINT64_C(1) << DP_FUTEX_CLASS_BITS) - 1)
struct dp_contended_debt {
    int64_t ns;
    unsigned class;
    dp_contended_slot slot;
};

/*
 * Begins a wait of this class for a futex word. To make room it may remove the debt of another word: *taken, which the
 * caller records as [unknown holder]; ns 0: none was removed.
 */
dp_contended_slot dp_contended_enter_futex(const void *word, unsigned class, int64_t begin_ns,
                                           struct dp_contended_debt *taken);

/*
 * Ends a wait; begin_ns as at enter. acquired: the time that is still owed has no holder. timed_out: it stays owed by
 * the next holder that unlocks. Both return the time without a holder, which the caller records as [hand-over]. They
 * may move *end_ns forward, to the time up to which this wait is already paid.
 */
int64_t dp_contended_acquired(dp_contended_slot slot, int64_t begin_ns, int64_t *end_ns);
int64_t dp_contended_timed_out(dp_contended_slot slot, int64_t begin_ns, int64_t *end_ns);
/* Cancels the wait, as if it had not begun. Returns the time that holders have already paid: that counts as waited. */
int64_t dp_contended_cancel(dp_contended_slot slot, int64_t begin_ns);

/*
 * A holder unlocks and pays. Adds the time that it owed to waits of each kind to owed_ns[kind], and stores their slot
 * in slots[kind] if that time is not 0. Returns the sum of the times.
 */
int64_t dp_contended_unlock(const void *lock, int64_t owed_ns[DP_CONTENDED_KINDS],
                            dp_contended_slot slots[DP_CONTENDED_KINDS]);

/* A thread wakes waiters of a futex word and pays. Fills in what it owed to each class; returns how many, <= n_most. */
unsigned dp_contended_wake(const void *word, struct dp_contended_debt *debts, unsigned n_most);

/*
 * Whether a slot still counts the waits of this kind for a lock, or of this class for a futex word. A slot is free for
 * another lock as soon as its waits have ended, also between a holder's payment and what the holder does next.
 */
struct dp_contended_place {
    const void *lock;
    unsigned class; /* or the kind */
    dp_contended_slot slot;
};
bool dp_contended_is_in_place(const struct dp_contended_place *place);

/* Fills in the classes of a futex word's slots, those of ended waits too. Returns how many, at most n_most. */
unsigned dp_contended_classes(const void *word, unsigned *classes, unsigned n_most);

/* Clears the table in a forked child, where no thread waits. Only stores and two calls of madvise. */
void dp_contended_fork_child(void);
