/* SPDX-License-Identifier: MIT */
/*
 * base/lock.h - a lock of one word, for code outside hooks.
 *
 * It is not a pthread mutex, for four reasons: no hook interposes it; a forked child unlocks it with one store in its
 * atfork handler; waiting has a deadline on CLOCK_MONOTONIC; and its word names the holder, so that a signal handler
 * that interrupted the holder gives up at once. Zero is unlocked. Not recursive, not fair.
 */
#pragma once

#include "base/atomic.h"

#include <stdbool.h>
#include <stdint.h>

struct dp_lock {
    _Atomic uint32_t word; /* 0: unlocked; else the holder's thread id, and DP_LOCK_WAITED */
};
#define DP_LOCK_WAITED 0x80000000u

void dp_lock_lock(struct dp_lock *);
bool dp_lock_try(struct dp_lock *);
/* deadline_ns: of dp_clock_ns. False: the deadline passed, or the calling thread holds the lock. Async-signal-safe. */
bool dp_lock_lock_until(struct dp_lock *, int64_t deadline_ns);
void dp_lock_unlock(struct dp_lock *);
bool dp_lock_is_mine(struct dp_lock *); /* whether the calling thread holds it. Async-signal-safe. */

/* Unlocks in a forked child, which has no other threads. */
static inline void dp_lock_reset(struct dp_lock *lock)
{
    dp_store_relaxed(&lock->word, 0);
}

/* Waits until *word differs from `seen`, a wake, a signal or the deadline (INT64_MAX: none). Async-signal-safe. */
void dp_futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns);
void dp_futex_wake(_Atomic uint32_t *word);
