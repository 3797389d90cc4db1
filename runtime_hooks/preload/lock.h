/* SPDX-License-Identifier: MIT */
/*
 * lock.h - macros for the hooks of all locks.
 *
 * A lock hook first calls the try function; any answer but "busy" is the result, so that an uncontended lock costs no
 * more than without hooks. The waiting call, and the unlock that sees waiters, are DP_DUE functions (hook.h). While the
 * real call waits, a hook holds nothing but its stack, so that cancellation may unwind it. Try functions are not
 * hooked: they neither wait nor unlock.
 *
 * While the process has one thread no other thread can hold a lock, and while no wait can be recorded none needs to be
 * measured: the real function is called at once. An unlock looks for waiters all the same.
 *
 * One expansion. MUTEX(pthread_mutex_lock, (pthread_mutex_t *m), (m), true) of mutex.c, by WAITING and TRYING, and
 * UNLOCKING(pthread_mutex_unlock, (pthread_mutex_t *m), (m), m) are, shortened:
 *
 *     int pthread_mutex_lock(pthread_mutex_t *m)                 int pthread_mutex_unlock(pthread_mutex_t *m)
 *     {                                                          {
 *         if (single_threaded || off)                                if (!single_threaded && may_have_waiters(m))
 *             return real_lock(m);                                       return pthread_mutex_unlock_seen(m);
 *         return pthread_mutex_lock_tried(m);                        return real_unlock(m);
 *     }                                                          }
 *     pthread_mutex_lock_tried(m):                               pthread_mutex_unlock_seen(m):
 *         result = try(m);                                           owes = lock_unlock_begin(&owed, m);
 *         if (result == EBUSY)                                       result = real_unlock(m);
 *             return pthread_mutex_lock_wait(m);                     if (owes)
 *         return result == AT_ONCE ? real_lock(m) : result;              lock_unlock_end(&owed, &site);
 *     pthread_mutex_lock_wait(m):                                    return result;
 *         lock_wait_begin(&wait, m, DELTAPROF_LOCK_MUTEX, &site);
 *         result = real_lock(m);
 *         lock_wait_end(&wait, end_of(result), &site);
 *         return result;
 */
#pragma once

#include "hook.h"

#include <errno.h>
#include <sys/single_threaded.h>
#include <time.h>

/*
 * Whether a timed call may try first. A bad clock or time is an error even if the lock is free: the real call reports
 * it.
 */
static inline bool may_try(clockid_t clock, const struct timespec *t)
{
    return (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC) && t && t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

/*
 * CPython's lock is a condition and the mutex behind it, in the interpreter's static state, which has no other mutex
 * that its hooks see but the one of the same lock for forced switches. Waits for any of them are waits for that lock.
 */
static inline bool is_of_python(const void *lock)
{
#ifdef DP_WRAP
    return false;
#else
    return __builtin_expect(dp_within(&dp_python_state, (uintptr_t)lock), 0);
#endif
}

static inline enum deltaprof_lock_end end_of(int result)
{
    return result == 0 || result == EOWNERDEAD ? DELTAPROF_ACQUIRED
           : result == ETIMEDOUT               ? DELTAPROF_TIMED_OUT
                                               : DELTAPROF_NOT_WAITED;
}

static inline enum deltaprof_lock_end end_of_c11(int result)
{
    return result == thrd_success    ? DELTAPROF_ACQUIRED
           : result == thrd_timedout ? DELTAPROF_TIMED_OUT
                                     : DELTAPROF_NOT_WAITED;
}

/*
 * Defines name##_wait, which makes the real call and reports it as a wait of this kind. lock: its address; of a kind
 * with a holder, the one that the holder will pass to deltaprof_lock_unlock_begin.
 */
#define WAITING(name, parameters, arguments, lock, kind, end) \
    DP_DUE int name##_wait parameters                         \
    {                                                         \
        struct deltaprof_site site = DELTAPROF_SITE_CALLER(); \
        struct deltaprof_wait wait;                           \
        deltaprof_lock_wait_begin(&wait, lock, kind, &site);  \
        int result = DP_REAL(name) arguments;                 \
        deltaprof_lock_wait_end(&wait, end(result), &site);   \
        return result;                                        \
    }

#define AS_IT_IS(result) (result)

enum { AT_ONCE = -1 }; /* returned by no pthread function */

/*
 * Defines the hook of a waiting call. With one thread, or while off, it calls the real function; else name##_tried,
 * which waits only if the try function returns busy, and calls the real function if it returns AT_ONCE. It is a
 * separate function so that the path with one thread needs no frame. end(result) is what the hook returns of the real
 * function's result.
 */
#define TRYING(name, parameters, arguments, try_allowed, try, busy, end)                       \
    DP_DUE int name##_tried parameters                                                         \
    {                                                                                          \
        int result = try;                                                                      \
        if (__builtin_expect(result == (busy), 0))                                             \
            return name##_wait arguments;                                                      \
        return __builtin_expect(result == AT_ONCE, 0) ? end(DP_REAL(name) arguments) : result; \
    }                                                                                          \
    DP_HOOK int name parameters                                                                \
    {                                                                                          \
        if (__libc_single_threaded || !deltaprof_gate_locks_on(&DP_GATE) || !(try_allowed))    \
            return end(DP_REAL(name) arguments);                                               \
        return name##_tried arguments;                                                         \
    }

/* Defines the hook of an unlock: one load if no thread waits. */
#define UNLOCKING(name, parameters, arguments, lock)                          \
    DP_DUE int name##_seen parameters                                         \
    {                                                                         \
        struct deltaprof_site site = DELTAPROF_SITE_CALLER();                 \
        struct deltaprof_owed owed;                                           \
        bool owes = deltaprof_lock_unlock_begin(&owed, lock);                 \
        int result = DP_REAL(name) arguments;                                 \
        if (owes)                                                             \
            deltaprof_lock_unlock_end(&owed, &site);                          \
        return result;                                                        \
    }                                                                         \
    DP_HOOK int name parameters                                               \
    {                                                                         \
        if (!__libc_single_threaded && deltaprof_lock_may_have_waiters(lock)) \
            return name##_seen arguments;                                     \
        return DP_REAL(name) arguments;                                       \
    }

/* Defines the hook that destroys a lock: reports the end of the lock. */
#define DESTROYING(name, type, lock)                              \
    DP_HOOK int name(type *lock)                                  \
    {                                                             \
        int result = DP_REAL(name)(lock);                         \
        if (result == 0 && deltaprof_lock_may_have_waiters(lock)) \
            deltaprof_lock_destroyed(lock);                       \
        return result;                                            \
    }
