/* SPDX-License-Identifier: MIT */
/*
 * mutex.c - hooks of pthread_mutex_* and mtx_*, which report lock events.
 *
 * trylock works for recursive, error-checking and priority-inheriting mutexes: it returns EAGAIN and EINVAL like lock.
 * If the thread has an error-checking mutex already, trylock returns EBUSY; the hook then calls the real lock, which
 * returns EDEADLK. A robust mutex is not tried: glibc's trylock (2.36) of one that is not recoverable leaves it locked,
 * and the next lock would hang. Its owner field is read instead. glibc's mtx_t is a pthread_mutex_t.
 */
#include "libc.h"
#include "lock.h"

/* Like trylock: EBUSY if the lock has to wait; else the result, or AT_ONCE: call the real lock. */
static inline int try(pthread_mutex_t *m)
{
    if (__builtin_expect(dp_libc_mutex(m) & DP_LIBC_MUTEX_ROBUST, 0))
        return dp_libc_mutex_is_locked(m) ? EBUSY : AT_ONCE;
    return dp_libc_locked(m, DP_REAL(pthread_mutex_trylock)(m));
}

static inline enum deltaprof_lock_kind kind_of(const pthread_mutex_t *m)
{
    unsigned is = dp_libc_mutex(m);
    if (is & DP_LIBC_MUTEX_SHARED)
        return DELTAPROF_LOCK_MUTEX | DELTAPROF_LOCK_SHARED | (is & DP_LIBC_MUTEX_ROBUST ? DELTAPROF_LOCK_ROBUST : 0);
    return is_of_python(m) ? DELTAPROF_LOCK_GIL : DELTAPROF_LOCK_MUTEX;
}

#define LOCKED(result)           dp_libc_locked(m, result)
#define END_OF_MUTEX(result)     end_of(dp_libc_locked(m, result))
#define END_OF_C11_MUTEX(result) end_of_c11(dp_libc_locked(m, result))

#define MUTEX(name, parameters, arguments, try_allowed)               \
    WAITING(name, parameters, arguments, m, kind_of(m), END_OF_MUTEX) \
    TRYING(name, parameters, arguments, try_allowed, try(m), EBUSY, LOCKED)

MUTEX(pthread_mutex_lock, (pthread_mutex_t * m), (m), true)
MUTEX(pthread_mutex_timedlock, (pthread_mutex_t * m, const struct timespec *t), (m, t), may_try(CLOCK_REALTIME, t))
MUTEX(pthread_mutex_clocklock, (pthread_mutex_t * m, clockid_t clock, const struct timespec *t), (m, clock, t),
      may_try(clock, t))
UNLOCKING(pthread_mutex_unlock, (pthread_mutex_t * m), (dp_libc_unlocks(m)), m)
DESTROYING(pthread_mutex_destroy, pthread_mutex_t, m)

#define MTX(name, parameters, arguments, try_allowed)                               \
    WAITING(name, parameters, arguments, m, DELTAPROF_LOCK_MUTEX, END_OF_C11_MUTEX) \
    TRYING(name, parameters, arguments, try_allowed, dp_libc_locked(m, DP_REAL(mtx_trylock)(m)), thrd_busy, LOCKED)

MTX(mtx_lock, (mtx_t * m), (m), true)
MTX(mtx_timedlock, (mtx_t *restrict m, const struct timespec *restrict t), (m, t), may_try(CLOCK_REALTIME, t))
UNLOCKING(mtx_unlock, (mtx_t * m), (dp_libc_unlocks(m)), m)

DP_HOOK void mtx_destroy(mtx_t *m)
{
    DP_REAL(mtx_destroy)(m);
    if (deltaprof_lock_may_have_waiters(m))
        deltaprof_lock_destroyed(m);
}

#ifndef __GLIBC__
__thread int dp_libc_own_tid;
#endif
