/* SPDX-License-Identifier: MIT */
/*
 * base/epoch.c - a futex lock with the three states of base/lock.c and an epoch in the word.
 *
 * [LOCK] Unlocking is a release and locking an acquire: the next holder sees all that the last one wrote under the
 * lock. Without it the next holder could read a vector's old address. A word of another epoch changes only when this
 * process locks it, because its holder is in another process.
 */
#include "base/epoch.h"

#include "base/lock.h"
#include "base/process.h"

#include <errno.h>

enum { FREE, HELD, WAITED, STATE = 3 };

static _Atomic uint32_t epoch;

uint32_t dp_epoch(void)
{
    return dp_load_relaxed(&epoch);
}

DP_IN_CHILD void dp_epoch_fork_child(void)
{
    dp_store_relaxed(&epoch, (dp_load_relaxed(&epoch) + 1) & (UINT32_MAX >> 2));
}

int dp_epoch_lock(struct dp_epoch_lock *lock, bool wait)
{
    uint32_t mine = dp_epoch() << 2, want = HELD;
    uint32_t seen = dp_load_relaxed(&lock->word);
    for (;;) {
        bool dead = (seen & ~STATE) != mine;
        if (dead || (seen & STATE) == FREE) {
            if (dp_cas_acquire(&lock->word, &seen, mine | want)) /* [LOCK] */
                return dead && (seen & STATE) != FREE;
        } else if (!wait) {
            return -EAGAIN;
        } else if ((seen & STATE) == WAITED || dp_cas_relaxed(&lock->word, &seen, mine | WAITED)) {
            dp_futex_wait(&lock->word, mine | WAITED, INT64_MAX);
            want = WAITED; /* other threads may wait as well */
            seen = dp_load_relaxed(&lock->word);
        }
    }
}

void dp_epoch_unlock(struct dp_epoch_lock *lock)
{
    uint32_t old = dp_swap_acq_rel(&lock->word, dp_epoch() << 2 | FREE); /* [LOCK] */
    if ((old & STATE) == WAITED)
        dp_futex_wake(&lock->word);
}
