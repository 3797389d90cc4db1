/* SPDX-License-Identifier: MIT */
/*
 * locks.h - events of locks: which threads wait, and which holders make them wait.
 *
 * Both sides of a wait report it, and each has a profile: the block profile has the waiter's stack; the mutex profile
 * has the stack of the holder that unlocked, with the waiting time that passed while it held the lock. An uncontended
 * lock is no event and costs the holder one load.
 *
 *     lock:
 *       if (try(l))
 *           return;
 *       deltaprof_lock_wait_begin(&wait, l, kind, NULL);
 *       wait_for(l);
 *       deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
 *
 *     unlock:
 *       owes = deltaprof_lock_may_have_waiters(l) && deltaprof_lock_unlock_begin(&owed, l);
 *       unlock(l);
 *       if (owes)
 *           deltaprof_lock_unlock_end(&owed, NULL);
 *
 * Nothing stays locked between the calls. If a thread is cancelled during a wait, or leaves it by longjmp, no call is
 * needed for kinds without a holder (COND to JOIN); for the other kinds deltaprof_lock_wait_end must be called.
 * Profiles show the kind as the label `lock`: mutex, rwlock-read, rwlock-write, cond, sem, spin, barrier, join or gil;
 * for futexes what their callers' names tell, else futex.
 *
 * Context: as of hooks.h.
 */
#pragma once

#include <deltaprof/thread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- locks ------------------------------------------------------------------------------------------------------- */

enum deltaprof_lock_kind {
    DELTAPROF_LOCK_MUTEX = 1,
    DELTAPROF_LOCK_READ = 2,
    DELTAPROF_LOCK_WRITE = 3,
    DELTAPROF_LOCK_COND = 4, /* from here to JOIN: kinds without a holder, in the block profile only */
    DELTAPROF_LOCK_SEM = 5,
    DELTAPROF_LOCK_SPIN = 6,
    DELTAPROF_LOCK_BARRIER = 7,
    DELTAPROF_LOCK_JOIN = 8,
    DELTAPROF_LOCK_FUTEX = 9,    /* not for deltaprof_lock_wait_begin: see below */
    DELTAPROF_LOCK_GIL = 13,     /* an interpreter's lock, with a holder as a mutex; 10 to 12 are the library's */
    DELTAPROF_LOCK_SHARED = 256, /* added to MUTEX, READ or WRITE of glibc: another process may hold the lock */
    DELTAPROF_LOCK_ROBUST = 512, /* added to MUTEX and SHARED: the lock may also be of this process alone */
};

enum deltaprof_lock_end {
    DELTAPROF_ACQUIRED,
    DELTAPROF_TIMED_OUT,
    DELTAPROF_NOT_WAITED, /* an error or an interruption: the wait is cancelled */
};

/* The state of one wait, on the waiter's stack. deltaprof_lock_wait_begin fills it; it need not be zeroed. */
struct deltaprof_wait {
    uint64_t opaque[4];
};

/*
 * The calling thread could not lock, and is going to wait. lock: the address that the holder will pass. If another
 * process may unlock it, pass NULL or a kind with SHARED: the wait is then counted for [unknown holder]; with ROBUST
 * only if no thread of this process unlocks it meanwhile. With SHARED
 * the log and /debug/pprof/waits still name the holder, whose id stands in the lock. site: where the waiter's stack
 * begins; NULL: at the function that calls this. The stack is captured now, so that a wait that goes on is seen.
 */
DELTAPROF_API void deltaprof_lock_wait_begin(struct deltaprof_wait *wait, const void *lock,
                                             enum deltaprof_lock_kind kind, const struct deltaprof_site *site);

/* Ends the wait that deltaprof_lock_wait_begin began. site: as there. */
DELTAPROF_API void deltaprof_lock_wait_end(struct deltaprof_wait *wait, enum deltaprof_lock_end end,
                                           const struct deltaprof_site *site);

/* A counter for each set of locks; 0: no thread waits for any of them. */
#define DELTAPROF_LOCK_SETS      4096
#define DELTAPROF_LOCK_SET(lock) ((unsigned)((uint64_t)(uintptr_t)(lock)*0x9E3779B97F4A7C15u >> 52))
extern DELTAPROF_API uint8_t deltaprof_lock_filter[DELTAPROF_LOCK_SETS];

/* False: no thread waits for lock. True: a thread may wait for it. */
static inline __attribute__((always_inline)) bool deltaprof_lock_may_have_waiters(const void *lock)
{
    return __builtin_expect(__atomic_load_n(&deltaprof_lock_filter[DELTAPROF_LOCK_SET(lock)], __ATOMIC_RELAXED) != 0,
                            0);
}

/* The waiting time that a holder has to account for, and the waits. */
struct deltaprof_owed {
    int64_t ns[5];
    uint64_t waiters[14];
};

/* To be called before the calling thread unlocks: fills owed. True: there is waiting time to account for. */
DELTAPROF_API bool deltaprof_lock_unlock_begin(struct deltaprof_owed *owed, const void *lock);

/*
 * To be called after it has unlocked, so that no thread waits longer: captures its stack and records the waiting time.
 * site as above.
 */
DELTAPROF_API void deltaprof_lock_unlock_end(const struct deltaprof_owed *owed, const struct deltaprof_site *site);

/*
 * The lock was destroyed: waiting time that is still owed is counted for [unknown holder], and a later lock at this
 * address starts with none.
 */
DELTAPROF_API void deltaprof_lock_destroyed(const void *lock);

/*
 * A rwlock does not tell which threads hold it for reading. So each thread notes two of the rwlocks that it holds for
 * reading, and its wait shows them. That finds deadlocks of a reader and a writer. More than two are not noted. Costs a
 * few loads and stores.
 */
static inline __attribute__((always_inline)) void deltaprof_lock_read_locked(const void *lock)
{
    const void **reads = deltaprof_thread.reads;
    *(reads[0] ? &reads[1] : &reads[0]) = lock;
}

/* To be called before each unlock of a rwlock. */
static inline __attribute__((always_inline)) void deltaprof_lock_read_unlocks(const void *lock)
{
    const void **reads = deltaprof_thread.reads;
    if (reads[0] == lock)
        reads[0] = NULL;
    else if (reads[1] == lock)
        reads[1] = NULL;
}

/* ---- futexes ----------------------------------------------------------------------------------------------------- */

/*
 * For an interposer of syscall, and for code with futex calls of its own that does not know what its callers wait for.
 * A report tells locks from other waits by the names of the functions above the site; only waits of locks have a row in
 * the mutex profile, for the thread that woke them. A wait inside a wait that the same thread reports is left out.
 *
 *     deltaprof_futex_wait_begin(&wait, word, &site);
 *     result = futex(word, FUTEX_WAIT, ...);
 *     deltaprof_futex_wait_end(&wait, word, result == 0 ? DELTAPROF_ACQUIRED : ...);
 *
 *     owes = deltaprof_futex_wake_begin(&wake, word);
 *     result = futex(word, FUTEX_WAKE, ...);
 *     if (owes)
 *         deltaprof_futex_wake_end(&wake, &site);
 *
 * end is DELTAPROF_ACQUIRED if the thread was woken, DELTAPROF_TIMED_OUT if its wait ended by a timeout or a signal,
 * DELTAPROF_NOT_WAITED if the word had another value. site as above. A wait that is cancelled or left by longjmp needs
 * no call.
 */
DELTAPROF_API void deltaprof_futex_wait_begin(struct deltaprof_wait *wait, const void *word,
                                              const struct deltaprof_site *site);
DELTAPROF_API void deltaprof_futex_wait_end(struct deltaprof_wait *wait, const void *word, enum deltaprof_lock_end end);

/* What a wake has to account for; need not be zeroed. */
struct deltaprof_futex_wake {
    uint64_t opaque[47];
};

/* To be called before the wake. True: there is waiting time to account for. */
DELTAPROF_API bool deltaprof_futex_wake_begin(struct deltaprof_futex_wake *wake, const void *word);
/* To be called after the wake, if begin returned true. */
DELTAPROF_API void deltaprof_futex_wake_end(const struct deltaprof_futex_wake *wake, const struct deltaprof_site *site);

#ifdef __cplusplus
}
#endif
