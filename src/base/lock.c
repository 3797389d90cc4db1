/* SPDX-License-Identifier: MIT */
/*
 * base/lock.c - a futex lock whose word names its holder. A waiter sets the top bit before it sleeps, so that the
 * holder knows that a thread must be woken.
 *
 * One compare-and-swap takes the lock and names the holder. If the name were stored afterwards, a signal handler that
 * interrupts the thread between the two would not know that its own thread holds the lock, and would wait for ever.
 *
 * [LOCK] locking is an acquire and unlocking a release: without them the next holder could read data that the last one
 * was still writing.
 */
#include "base/lock.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void dp_futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
    int saved = errno;
    struct timespec t = {deadline_ns / 1000000000, deadline_ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, deadline_ns == INT64_MAX ? NULL : &t, NULL,
            FUTEX_BITSET_MATCH_ANY);
    errno = saved;
}

void dp_futex_wake(_Atomic uint32_t *word)
{
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    errno = saved;
}

static uint32_t self(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

bool dp_lock_try(struct dp_lock *lock)
{
    uint32_t open = 0;
    return dp_cas_acquire(&lock->word, &open, self()); /* [LOCK] */
}

bool dp_lock_lock_until(struct dp_lock *lock, int64_t deadline_ns)
{
    uint32_t me = self(), word = me;
    for (;;) {
        uint32_t seen = 0;
        if (dp_cas_acquire(&lock->word, &seen, word)) /* [LOCK] */
            return true;
        if ((seen & ~DP_LOCK_WAITED) == me || (deadline_ns != INT64_MAX && dp_clock_ns() >= deadline_ns))
            return false;
        if (!(seen & DP_LOCK_WAITED) && !dp_cas_relaxed(&lock->word, &seen, seen | DP_LOCK_WAITED))
            continue;
        word = me | DP_LOCK_WAITED; /* other threads may sleep as well */
        dp_futex_wait(&lock->word, seen | DP_LOCK_WAITED, deadline_ns);
    }
}

bool dp_lock_is_mine(struct dp_lock *lock)
{
    return (dp_load_relaxed(&lock->word) & ~DP_LOCK_WAITED) == self();
}

void dp_lock_lock(struct dp_lock *lock)
{
    dp_lock_lock_until(lock, INT64_MAX);
}

void dp_lock_unlock(struct dp_lock *lock)
{
    if (dp_swap_acq_rel(&lock->word, 0) & DP_LOCK_WAITED) /* [LOCK] */
        dp_futex_wake(&lock->word);
}
