/* SPDX-License-Identifier: MIT */
/*
 * rwlock.c - hooks of pthread_rwlock_*, which report lock events. A lock may have many reading holders: each one that
 * unlocks while a thread waits accounts for the time since the last unlock.
 */
#include "libc.h"
#include "lock.h"

static inline enum deltaprof_lock_kind kind_of(const pthread_rwlock_t *l, enum deltaprof_lock_kind kind)
{
    return dp_libc_rwlock_is_shared(l) ? kind | DELTAPROF_LOCK_SHARED : kind;
}

#define LOCKED(result)       dp_libc_locked(l, result)
#define END_OF_WRITE(result) end_of(dp_libc_locked(l, result))

/* While the process has one thread, locks are not noted: that would cost more than the rest of the hook. */
static inline int note_read(const pthread_rwlock_t *l, int result)
{
    if (result == 0)
        deltaprof_lock_read_locked(l);
    return result;
}

static inline pthread_rwlock_t *note_unlock(pthread_rwlock_t *l)
{
    deltaprof_lock_read_unlocks(l);
    return dp_libc_unlocks(l);
}

#define END_OF_READ(result) end_of(note_read(l, result))

#define READ(name, parameters, arguments, try_allowed)                                                          \
    WAITING(name, parameters, arguments, l, kind_of(l, DELTAPROF_LOCK_READ), END_OF_READ)                       \
    TRYING(name, parameters, arguments, try_allowed, note_read(l, DP_REAL(pthread_rwlock_tryrdlock)(l)), EBUSY, \
           AS_IT_IS)
#define WRITE(name, parameters, arguments, try_allowed)                                                              \
    WAITING(name, parameters, arguments, l, kind_of(l, DELTAPROF_LOCK_WRITE), END_OF_WRITE)                          \
    TRYING(name, parameters, arguments, try_allowed, dp_libc_locked(l, DP_REAL(pthread_rwlock_trywrlock)(l)), EBUSY, \
           LOCKED)

#define PLAIN   (pthread_rwlock_t * l)
#define TIMED   (pthread_rwlock_t *restrict l, const struct timespec *restrict t)
#define CLOCKED (pthread_rwlock_t *restrict l, clockid_t clock, const struct timespec *restrict t)

READ(pthread_rwlock_rdlock, PLAIN, (l), true)
READ(pthread_rwlock_timedrdlock, TIMED, (l, t), may_try(CLOCK_REALTIME, t))
READ(pthread_rwlock_clockrdlock, CLOCKED, (l, clock, t), may_try(clock, t))
WRITE(pthread_rwlock_wrlock, PLAIN, (l), true)
WRITE(pthread_rwlock_timedwrlock, TIMED, (l, t), may_try(CLOCK_REALTIME, t))
WRITE(pthread_rwlock_clockwrlock, CLOCKED, (l, clock, t), may_try(clock, t))
UNLOCKING(pthread_rwlock_unlock, PLAIN, (note_unlock(l)), l)
DESTROYING(pthread_rwlock_destroy, pthread_rwlock_t, l)
