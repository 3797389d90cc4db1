/* SPDX-License-Identifier: MIT */
/*
 * base/epoch.h - a lock that a fork cannot leave locked, for objects that no atfork handler could find: consumers.
 *
 * The word holds the epoch of its holder. In a forked child a word with the parent's epoch counts as free; the first
 * thread that locks it is told if the holder did not finish. Zero is a free lock.
 */
#pragma once

#include "base/atomic.h"

#include <stdbool.h>
#include <stdint.h>

struct dp_epoch_lock {
    _Atomic uint32_t word; /* epoch << 2 | 0 free, 1 held, 2 held and waited for */
};

/*
 * Returns 0: locked. 1: locked, but the last holder stayed behind in the parent: the protected data is in an unknown
 * state and must be dropped, not freed. -EAGAIN: another thread holds it, and wait is false.
 */
int dp_epoch_lock(struct dp_epoch_lock *lock, bool wait);

/* Unlocks. A holder that forked and continues in the child (dp_epoch changed) must not call it. */
void dp_epoch_unlock(struct dp_epoch_lock *lock);

/* The number of forks between this process and the first one. */
uint32_t dp_epoch(void);
void dp_epoch_fork_child(void); /* only stores; once a fork */
