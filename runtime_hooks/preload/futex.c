/* SPDX-License-Identifier: MIT */
/*
 * futex.c - hooks of the kernel's futex calls that programs make through libc's syscall: locks of Rust, parking_lot,
 * abseil, folly, GLib and Qt, and std::atomic::wait of both C++ libraries. libc's own locks enter the kernel without
 * calling syscall; their hooks are in mutex.c, rwlock.c and wait.c, so no wait is seen twice.
 *
 * The seventh argument of syscall, futex's sixth, is on the stack on x86-64 (symbols.h). It is read there, next to
 * the return address, and passed on. If the caller gave fewer arguments, that word is something else, which the kernel
 * ignores.
 */
#include "lock.h"

#include "futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>

/* For a function that dp_syscall_futex jumped to. */
#if defined(__x86_64__)
#define LAST_ARGUMENT() (((const long *)__builtin_frame_address(0))[2])
#else
#define LAST_ARGUMENT() f
#endif

typedef long syscall_fn(long number, long a, long b, long c, long d, long e, long f);

static inline long pass_on(long number, long a, long b, long c, long d, long e, long f)
{
    syscall_fn *real = (syscall_fn *)(void *)DP_REAL(syscall);
    __asm__("" : "+r"(real)); /* the compiler must not see that it was declared with fewer arguments */
    return real(number, a, b, c, d, e, f);
}

#define FUTEX_DUE(name) DP_DUE long name(long number, long a, long b, long c, long d, DP_SYSCALL_LAST(long))

static inline enum deltaprof_lock_end end_of_futex(long result)
{
    return result >= 0                            ? DELTAPROF_ACQUIRED
           : errno == ETIMEDOUT || errno == EINTR ? DELTAPROF_TIMED_OUT
                                                  : DELTAPROF_NOT_WAITED;
}

FUTEX_DUE(wait)
{
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct deltaprof_wait wait;
    const void *word = number == SYS_FUTEX_WAITV ? NULL : (const void *)a; /* of several words none is the lock */
    deltaprof_futex_wait_begin(&wait, word, &site);
    long result = pass_on(number, a, b, c, d, e, LAST_ARGUMENT());
    deltaprof_futex_wait_end(&wait, word, end_of_futex(result));
    return result;
}

FUTEX_DUE(wake)
{
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct deltaprof_futex_wake first, second;
    bool both = number == SYS_futex && (b & FUTEX_CMD_MASK) == FUTEX_WAKE_OP;
    bool owes = deltaprof_futex_wake_begin(&first, (const void *)a);
    bool owes_second = both && deltaprof_futex_wake_begin(&second, (const void *)e);
    long result = pass_on(number, a, b, c, d, e, LAST_ARGUMENT());
    if (owes)
        deltaprof_futex_wake_end(&first, &site);
    if (owes_second)
        deltaprof_futex_wake_end(&second, &site);
    return result;
}

long dp_syscall_futex(long number, long a, long b, long c, long d, DP_SYSCALL_LAST(long))
{
    if (!deltaprof_gate_locks_on(&DP_GATE))
        return DP_REAL(syscall)(number, a, b, c, d, DP_SYSCALL_LAST());
    if (number == SYS_FUTEX_WAIT || number == SYS_FUTEX_WAITV)
        return wait(number, a, b, c, d, DP_SYSCALL_LAST());
    if (number == SYS_FUTEX_WAKE)
        return wake(number, a, b, c, d, DP_SYSCALL_LAST());
    switch (b & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_WAIT_REQUEUE_PI:
    case FUTEX_LOCK_PI:
    case FUTEX_LOCK_PI2_:
        return wait(number, a, b, c, d, DP_SYSCALL_LAST());
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
    case FUTEX_WAKE_OP:
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE:
    case FUTEX_CMP_REQUEUE_PI:
    case FUTEX_UNLOCK_PI:
        return wake(number, a, b, c, d, DP_SYSCALL_LAST());
    default:
        return DP_REAL(syscall)(number, a, b, c, d, DP_SYSCALL_LAST());
    }
}
