/* SPDX-License-Identifier: MIT */
/*
 * wait.c - hooks of functions that wait without a holder: conditions, semaphores, spin locks, barriers, joins. Block
 * profile only.
 */
#include "libc.h"
#include "lock.h"

/*
 * ---- conditions -----------------------------------------------------------------------------------------------------
 *
 * libc unlocks and locks the mutex inside, where no hook sees it, so the unlock is reported here. The holder's stack is
 * captured before the call, under the lock, because the call returns only after the whole wait. The relock is part of
 * the wait.
 */

static void let_go(const void *m, const struct deltaprof_site *site)
{
    struct deltaprof_owed owed;
    if (deltaprof_lock_may_have_waiters(m) && deltaprof_lock_unlock_begin(&owed, m))
        deltaprof_lock_unlock_end(&owed, site);
}

/*
 * A thread that wants CPython's lock waits for the condition with a timeout, and the holder signals when it lets go: so
 * the condition stands for a lock with a holder. A thread that was told to let go waits for a second condition, without
 * a timeout, until another thread has taken the lock. During that time no thread holds the lock, so this wait is given
 * an address that no thread unlocks.
 */
static inline bool is_gil(const void *c, const void *m)
{
    return is_of_python(c) && m == (const pthread_cond_t *)c + 1;
}

static inline enum deltaprof_lock_kind kind_of(const void *c, const void *m)
{
    return is_gil(c, m) ? DELTAPROF_LOCK_GIL : DELTAPROF_LOCK_COND;
}

static inline const void *lock_of(const void *c, const void *m, bool timed)
{
    return !timed && is_gil(c, m) ? (const char *)c + 1 : c;
}

UNLOCKING(pthread_cond_signal, (pthread_cond_t * c), (c), c)

#define CONDITION(name, parameters, arguments, timed, end)                               \
    DP_DUE int name##_wait parameters                                                    \
    {                                                                                    \
        struct deltaprof_site site = DELTAPROF_SITE_CALLER();                            \
        struct deltaprof_wait wait;                                                      \
        let_go(m, &site);                                                                \
        deltaprof_lock_wait_begin(&wait, lock_of(c, m, timed), kind_of(c, m), &site);    \
        (void)dp_libc_unlocks(m);                                                        \
        int result = DP_REAL(name) arguments;                                            \
        dp_libc_locked(m, 0);                                                            \
        deltaprof_lock_wait_end(&wait, end(result), &site);                              \
        return result;                                                                   \
    }                                                                                    \
    DP_HOOK int name parameters                                                          \
    {                                                                                    \
        return __libc_single_threaded ? DP_REAL(name) arguments : name##_wait arguments; \
    }

CONDITION(pthread_cond_wait, (pthread_cond_t *restrict c, pthread_mutex_t *restrict m), (c, m), false, end_of)
CONDITION(pthread_cond_timedwait,
          (pthread_cond_t *restrict c, pthread_mutex_t *restrict m, const struct timespec *restrict t), (c, m, t), true,
          end_of)
CONDITION(pthread_cond_clockwait,
          (pthread_cond_t *restrict c, pthread_mutex_t *restrict m, clockid_t clock, const struct timespec *restrict t),
          (c, m, clock, t), true, end_of)
CONDITION(cnd_wait, (cnd_t * c, mtx_t *m), (c, m), false, end_of_c11)
CONDITION(cnd_timedwait, (cnd_t *restrict c, mtx_t *restrict m, const struct timespec *restrict t), (c, m, t), false,
          end_of_c11)

/*
 * ---- semaphores -----------------------------------------------------------------------------------------------------
 *
 * Semaphores are often shared between processes with one thread, so they are hooked there too. Waiting for one is a
 * cancellation point even if it is free; trying is not.
 */

/* True: *s was decremented. False, errno unchanged: the thread has to wait. */
static inline bool taken(sem_t *s)
{
    int saved_errno = errno;
    pthread_testcancel();
    if (DP_REAL(sem_trywait)(s) == 0)
        return true;
    errno = saved_errno;
    return false;
}

static inline enum deltaprof_lock_end end_of_sem(int result)
{
    return result == 0 ? DELTAPROF_ACQUIRED : errno == ETIMEDOUT ? DELTAPROF_TIMED_OUT : DELTAPROF_NOT_WAITED;
}

#define SEMAPHORE(name, parameters, arguments, try_allowed)                 \
    WAITING(name, parameters, arguments, s, DELTAPROF_LOCK_SEM, end_of_sem) \
    DP_HOOK int name parameters                                             \
    {                                                                       \
        if (!(try_allowed))                                                 \
            return DP_REAL(name) arguments;                                 \
        return taken(s) ? 0 : name##_wait arguments;                        \
    }

SEMAPHORE(sem_wait, (sem_t * s), (s), true)
SEMAPHORE(sem_timedwait, (sem_t *restrict s, const struct timespec *restrict t), (s, t), may_try(CLOCK_REALTIME, t))
SEMAPHORE(sem_clockwait, (sem_t *restrict s, clockid_t clock, const struct timespec *restrict t), (s, clock, t),
          may_try(clock, t))

/* ---- spin locks and barriers ------------------------------------------------------------------------------------ */

WAITING(pthread_spin_lock, (pthread_spinlock_t * l), (l), NULL, DELTAPROF_LOCK_SPIN, end_of)

DP_HOOK int pthread_spin_lock(pthread_spinlock_t *l)
{
    int result = DP_REAL(pthread_spin_trylock)(l);
    return __builtin_expect(result == EBUSY, 0) ? pthread_spin_lock_wait(l) : result;
}

/* glibc returns PTHREAD_BARRIER_SERIAL_THREAD to the last thread, which does not wait. */
WAITING(pthread_barrier_wait, (pthread_barrier_t * b), (b), b, DELTAPROF_LOCK_BARRIER, end_of)

DP_HOOK int pthread_barrier_wait(pthread_barrier_t *b)
{
    return pthread_barrier_wait_wait(b);
}

/* ---- joins ------------------------------------------------------------------------------------------------------ */

#define JOIN(name, parameters, arguments, try_allowed)                      \
    WAITING(name, parameters, arguments, NULL, DELTAPROF_LOCK_JOIN, end_of) \
    DP_HOOK int name parameters                                             \
    {                                                                       \
        if (!(try_allowed))                                                 \
            return DP_REAL(name) arguments;                                 \
        int result = DP_REAL(pthread_tryjoin_np)(thread, value);            \
        return result == EBUSY ? name##_wait arguments : result;            \
    }

JOIN(pthread_join, (pthread_t thread, void **value), (thread, value), true)
JOIN(pthread_timedjoin_np, (pthread_t thread, void **value, const struct timespec *t), (thread, value, t),
     may_try(CLOCK_REALTIME, t))
JOIN(pthread_clockjoin_np, (pthread_t thread, void **value, clockid_t clock, const struct timespec *t),
     (thread, value, clock, t), may_try(clock, t))

WAITING(thrd_join, (thrd_t thread, int *value), (thread, value), NULL, DELTAPROF_LOCK_JOIN, end_of_c11)

DP_HOOK int thrd_join(thrd_t thread, int *value)
{
    return thrd_join_wait(thread, value);
}
