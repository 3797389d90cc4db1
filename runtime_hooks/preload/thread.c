/* SPDX-License-Identifier: MIT */
/*
 * thread.c - hooks of functions that create threads: the library's threads are created first, in the same call.
 *
 * Creating a thread takes locks of the loader, so no hook of malloc or of a lock may do it in a process with threads.
 * Here the program itself is going to take the same locks, so there is no new risk of a deadlock.
 *
 * If the program's thread cannot be created right after a thread of the library, the latter may have taken the last
 * place: it ends, and the program's call is repeated.
 */
#include "hook.h"

#include <sched.h>
#include <threads.h>

static inline bool ours_came(void)
{
    return __builtin_expect(deltaprof_poll_wanted, 0) && deltaprof_thread_begins();
}

#define MAKING(name, parameters, arguments, success)          \
    DP_HOOK int name parameters                               \
    {                                                         \
        bool ours = ours_came();                              \
        int result = DP_REAL(name) arguments;                 \
        if (__builtin_expect(result != success, 0) && ours) { \
            deltaprof_stop_agent();                           \
            result = DP_REAL(name) arguments;                 \
        }                                                     \
        return result;                                        \
    }

MAKING(pthread_create,
       (pthread_t *restrict thread, const pthread_attr_t *restrict attr, void *(*run)(void *), void *restrict arg),
       (thread, attr, run, arg), 0)
MAKING(thrd_create, (thrd_t * thread, thrd_start_t run, void *arg), (thread, run, arg), thrd_success)

/* Passed on by a jump, as syscall is (symbols.h): the last argument, if there is one, is on the stack. */
DP_HOOK int dp_clone(int (*run)(void *), void *stack, int flags, void *arg,
                     DP_CLONE_LIST(void *)) __asm__(DP_HOOK_NAME("clone"));

DP_DUE int clone_with_ours(int (*run)(void *), void *stack, int flags, void *arg, DP_CLONE_LIST(void *))
{
    deltaprof_thread_begins();
    return DP_REAL(clone)(run, stack, flags, arg, DP_CLONE_LIST());
}

int dp_clone(int (*run)(void *), void *stack, int flags, void *arg, DP_CLONE_LIST(void *))
{
    if (__builtin_expect(deltaprof_poll_wanted, 0) && (flags & CLONE_THREAD))
        return clone_with_ours(run, stack, flags, arg, DP_CLONE_LIST());
    return DP_REAL(clone)(run, stack, flags, arg, DP_CLONE_LIST());
}
