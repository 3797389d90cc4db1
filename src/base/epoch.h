/* SPDX-License-Identifier: MIT */
/*
 * base/epoch.h - a lock that a fork cannot leave locked, for objects that no atfork handler could find: consumers.
 *
 * The word holds the epoch of its holder; in a forked child every word of the parent's epoch counts as free, and the
 * first taker is told when the holder did not live to finish. Zero is a free lock.
 */
#pragma once

#include "base/atomic.h"

#include <stdbool.h>
#include <stdint.h>

struct dp_epoch_lock {
    _Atomic uint32_t word; /* epoch << 2 | 0 free, 1 held, 2 held and waited for */
};

/*
 * 0: held. 1: held, and the holder before us was left behind in the parent: what the lock protects is in no known state
 * and must be forgotten, not freed. -EAGAIN: held by another, and wait is false.
 */
int dp_epoch_lock(struct dp_epoch_lock *lock, bool wait);

/* Gives it back. A holder that forked and goes on in the child must not (dp_epoch moved). */
void dp_epoch_unlock(struct dp_epoch_lock *lock);

/* How many forks ago the lock words began. */
uint32_t dp_epoch(void);
void dp_epoch_fork_child(void); /* only stores; once a fork */
