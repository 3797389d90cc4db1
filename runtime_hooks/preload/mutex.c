/* SPDX-License-Identifier: MIT */
/*
 * mutex.c - pthread_mutex_* and mtx_* as lock events.
 *
 * A try tells recursive, error-checking, robust and priority-inheriting mutexes apart as well as the lock would: it
 * answers EOWNERDEAD (the caller holds it now), ENOTRECOVERABLE, EAGAIN and EINVAL itself, and EBUSY where an
 * error-checking lock would say EDEADLK, which then the real lock says. glibc's mtx_t is a pthread_mutex_t.
 */
#include "lock.h"

/* The address that the unlock will give, or NULL: the holder may be in another process. */
static inline const void *mutex(const pthread_mutex_t *m)
{
    return m->__data.__kind & 0x80 ? NULL : m;
}

#define MUTEX(name, parameters, arguments, try_allowed)                               \
    WAITING(name, parameters, arguments, mutex(m), DELTAPROF_LOCK_MUTEX, end_of, )    \
    DP_HOOK int name parameters                                                       \
    {                                                                                 \
        if (__libc_single_threaded || !(try_allowed))                                 \
            return DP_REAL(name) arguments;                                           \
        int result = DP_REAL(pthread_mutex_trylock)(m);                               \
        return __builtin_expect(result == EBUSY, 0) ? name##_wait arguments : result; \
    }

MUTEX(pthread_mutex_lock, (pthread_mutex_t * m), (m), true)
MUTEX(pthread_mutex_timedlock, (pthread_mutex_t * m, const struct timespec *t), (m, t), may_try(CLOCK_REALTIME, t))
MUTEX(pthread_mutex_clocklock, (pthread_mutex_t * m, clockid_t clock, const struct timespec *t), (m, clock, t),
      may_try(clock, t))
RELEASING(pthread_mutex_unlock, (pthread_mutex_t * m), (m), m)
DESTROYING(pthread_mutex_destroy, pthread_mutex_t, m)

#define MTX(name, parameters, arguments, try_allowed)                                     \
    WAITING(name, parameters, arguments, m, DELTAPROF_LOCK_MUTEX, end_of_c11, )           \
    DP_HOOK int name parameters                                                           \
    {                                                                                     \
        if (__libc_single_threaded || !(try_allowed))                                     \
            return DP_REAL(name) arguments;                                               \
        int result = DP_REAL(mtx_trylock)(m);                                             \
        return __builtin_expect(result == thrd_busy, 0) ? name##_wait arguments : result; \
    }

MTX(mtx_lock, (mtx_t * m), (m), true)
MTX(mtx_timedlock, (mtx_t *restrict m, const struct timespec *restrict t), (m, t), may_try(CLOCK_REALTIME, t))
RELEASING(mtx_unlock, (mtx_t * m), (m), m)

DP_HOOK void mtx_destroy(mtx_t *m)
{
    DP_REAL(mtx_destroy)(m);
    if (deltaprof_lock_maybe(m))
        deltaprof_lock_gone(m);
}
