/* SPDX-License-Identifier: MIT */
/*
 * mutex.c - hooks of pthread_mutex_* and mtx_*, which report lock events.
 *
 * trylock works for recursive, error-checking and priority-inheriting mutexes: it returns EAGAIN and EINVAL like lock.
 * If the thread has an error-checking mutex already, trylock returns EBUSY; the hook then calls the real lock, which
 * returns EDEADLK. A robust mutex is not tried: glibc's trylock (2.36) of one that is not recoverable leaves it locked,
 * and the next lock would hang. Its owner field is read instead. glibc's mtx_t is a pthread_mutex_t.
 */
#include "lock.h"

enum {
    ROBUST = 0x10,
    SHARED = 0x80,
    OWNER = 0x3fffffff
}; /* bits of __kind and __lock; glibc marks robust ones as shared */

/* Like trylock: EBUSY if the lock has to wait; else the result, or AT_ONCE: call the real lock. */
static inline int try(pthread_mutex_t *m)
{
    if (__builtin_expect(m->__data.__kind & ROBUST, 0))
        return __atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED) & OWNER ? EBUSY : AT_ONCE;
    return DP_REAL(pthread_mutex_trylock)(m);
}

static inline enum deltaprof_lock_kind kind_of(const pthread_mutex_t *m)
{
    if (m->__data.__kind & SHARED)
        return DELTAPROF_LOCK_MUTEX | DELTAPROF_LOCK_SHARED | (m->__data.__kind & ROBUST ? DELTAPROF_LOCK_ROBUST : 0);
    return is_of_python(m) ? DELTAPROF_LOCK_GIL : DELTAPROF_LOCK_MUTEX;
}

#define MUTEX(name, parameters, arguments, try_allowed)         \
    WAITING(name, parameters, arguments, m, kind_of(m), end_of) \
    TRYING(name, parameters, arguments, try_allowed, try(m), EBUSY)

MUTEX(pthread_mutex_lock, (pthread_mutex_t * m), (m), true)
MUTEX(pthread_mutex_timedlock, (pthread_mutex_t * m, const struct timespec *t), (m, t), may_try(CLOCK_REALTIME, t))
MUTEX(pthread_mutex_clocklock, (pthread_mutex_t * m, clockid_t clock, const struct timespec *t), (m, clock, t),
      may_try(clock, t))
UNLOCKING(pthread_mutex_unlock, (pthread_mutex_t * m), (m), m)
DESTROYING(pthread_mutex_destroy, pthread_mutex_t, m)

#define MTX(name, parameters, arguments, try_allowed)                         \
    WAITING(name, parameters, arguments, m, DELTAPROF_LOCK_MUTEX, end_of_c11) \
    TRYING(name, parameters, arguments, try_allowed, DP_REAL(mtx_trylock)(m), thrd_busy)

MTX(mtx_lock, (mtx_t * m), (m), true)
MTX(mtx_timedlock, (mtx_t *restrict m, const struct timespec *restrict t), (m, t), may_try(CLOCK_REALTIME, t))
UNLOCKING(mtx_unlock, (mtx_t * m), (m), m)

DP_HOOK void mtx_destroy(mtx_t *m)
{
    DP_REAL(mtx_destroy)(m);
    if (deltaprof_lock_may_have_waiters(m))
        deltaprof_lock_destroyed(m);
}
