/* SPDX-License-Identifier: MIT */
/*
 * base/lock.c - the classic futex lock (Drepper, Futexes Are Tricky, section 6): a waiter writes 2 before it sleeps, so
 * that whoever gives the lock back knows to wake somebody.
 *
 * [LOCK] taking is an acquire and giving a release: without them the next holder could read what the last one was still
 * writing. `holder` is relaxed: a thread asks only whether it is itself, and sees its own stores.
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

static int32_t self(void)
{
    return (int32_t)syscall(SYS_gettid);
}

bool dp_lock_try(struct dp_lock *lock)
{
    uint32_t open = 0;
    if (!dp_cas_acquire(&lock->word, &open, 1)) /* [LOCK] */
        return false;
    dp_store_relaxed(&lock->holder, self());
    return true;
}

bool dp_lock_take_until(struct dp_lock *lock, int64_t deadline_ns)
{
    if (dp_lock_try(lock))
        return true;
    if (dp_load_relaxed(&lock->holder) == self())
        return false;
    while (dp_swap_acquire(&lock->word, 2)) { /* [LOCK] */
        if (deadline_ns != INT64_MAX && dp_clock_ns() >= deadline_ns)
            return false;
        dp_futex_wait(&lock->word, 2, deadline_ns);
    }
    dp_store_relaxed(&lock->holder, self());
    return true;
}

void dp_lock_take(struct dp_lock *lock)
{
    dp_lock_take_until(lock, INT64_MAX);
}

void dp_lock_give(struct dp_lock *lock)
{
    dp_store_relaxed(&lock->holder, 0);
    if (dp_swap_acq_rel(&lock->word, 0) == 2) /* [LOCK] */
        dp_futex_wake(&lock->word);
}
