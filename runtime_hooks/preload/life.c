/* SPDX-License-Identifier: MIT */
/*
 * life.c - what the program does to itself, told to the library: ends, closed libraries, namespaces, seccomp.
 *
 * exit and quick_exit reach the library by handlers of theirs (init.c); `_exit` and exit_group have none. syscall and
 * prctl are declared here with the words that they may carry, whose number we cannot know; they are passed on as they
 * came, by a jump, also because a system call may return twice.
 */
#include "hook.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

DP_HOOK void _exit(int status) __attribute__((noreturn));
DP_HOOK void _Exit(int status) __attribute__((noreturn));
DP_HOOK void pthread_exit(void *result) __attribute__((noreturn));
DP_HOOK void thrd_exit(int result) __attribute__((noreturn));
DP_HOOK int daemon(int nochdir, int noclose);
DP_HOOK int dlclose(void *handle);
DP_HOOK int unshare(int flags);
DP_HOOK int setns(int fd, int type);
DP_HOOK long dp_syscall(long number, long a, long b, long c, long d,
                        DP_SYSCALL_LAST(long)) __asm__(DP_HOOK_NAME("syscall"));
DP_HOOK int dp_prctl(int option, long a, long b, long c, long d) __asm__(DP_HOOK_NAME("prctl"));

void _exit(int status)
{
    deltaprof_deliver();
    DP_REAL(_exit)(status);
    __builtin_unreachable();
}

void _Exit(int status)
{
    _exit(status);
}

void pthread_exit(void *result)
{
    deltaprof_main_leaves();
    DP_REAL(pthread_exit)(result);
    __builtin_unreachable();
}

void thrd_exit(int result)
{
    deltaprof_main_leaves();
    DP_REAL(thrd_exit)(result);
    __builtin_unreachable();
}

/* The parent ends inside libc, by an _exit that nobody sees; what it did so far is told before. */
int daemon(int nochdir, int noclose)
{
    deltaprof_emit();
    return DP_REAL(daemon)(nochdir, noclose);
}

int dlclose(void *handle)
{
    deltaprof_unload_begin();
    int result = DP_REAL(dlclose)(handle);
    deltaprof_unload_end();
    return result;
}

int unshare(int flags)
{
    deltaprof_quiesce();
    return DP_REAL(unshare)(flags);
}

int setns(int fd, int type)
{
    deltaprof_quiesce();
    return DP_REAL(setns)(fd, type);
}

/* A filter of NULL is how programs, and libseccomp in their name, ask whether there is such a thing. */
static inline bool confines(long number, long a, long b, long c)
{
    if (number == SYS_seccomp)
        return a == SECCOMP_SET_MODE_STRICT || (a == SECCOMP_SET_MODE_FILTER && c);
    return number == SYS_prctl && a == PR_SET_SECCOMP && (b != SECCOMP_MODE_FILTER || c);
}

/* Told before the filter stands: afterwards a thread of ours might already die of what it opens. */
int dp_prctl(int option, long a, long b, long c, long d)
{
    if (confines(SYS_prctl, option, a, b))
        deltaprof_confined();
    return DP_REAL(prctl)(option, a, b, c, d);
}

static __attribute__((noinline)) long told(long number, long a, long b, long c, long d, DP_SYSCALL_LAST(long))
{
    if (number == SYS_exit_group)
        deltaprof_deliver();
    else if (number == SYS_execve || number == SYS_execveat)
        dp_leave(NULL);
    else if (number == SYS_unshare || number == SYS_setns)
        deltaprof_quiesce();
    else if (confines(number, a, b, c))
        deltaprof_confined();
    return DP_REAL(syscall)(number, a, b, c, d, DP_SYSCALL_LAST());
}

long dp_syscall(long number, long a, long b, long c, long d, DP_SYSCALL_LAST(long))
{
    if (number == SYS_exit_group || number == SYS_execve || number == SYS_execveat || number == SYS_unshare ||
        number == SYS_setns || number == SYS_seccomp || number == SYS_prctl)
        return told(number, a, b, c, d, DP_SYSCALL_LAST());
    return DP_REAL(syscall)(number, a, b, c, d, DP_SYSCALL_LAST());
}
