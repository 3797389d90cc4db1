/* SPDX-License-Identifier: MIT */
/*
 * process.c - what the program does to itself, told to the library: ends, closed libraries, namespaces, rights,
 * seccomp.
 *
 * exit and quick_exit reach the library by handlers of theirs (init.c); `_exit` and exit_group have none. Of two
 * threads in exit, one runs the handlers and the other may end the process under it, so exit is told too. syscall and
 * prctl are declared here with the words that they may carry, whose number we cannot know; they are passed on as they
 * came, by a jump, also because a system call may return twice.
 */
#include "hook.h"

#include <linux/seccomp.h>
#include <sched.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* System calls that older headers do not name. */
enum { CLONE3 = 435, LANDLOCK_RESTRICT_SELF = 446, LSM_SET_SELF_ATTR = 460 };
#ifndef PR_SET_SPECULATION_CTRL
#define PR_SET_SPECULATION_CTRL 53
#endif

DP_HOOK void dp_exit(int status) __asm__(DP_HOOK_NAME("exit")); /* not noreturn, so that it is left by a jump */
DP_HOOK void _exit(int status) __attribute__((noreturn));
DP_HOOK void _Exit(int status) __attribute__((noreturn));
DP_HOOK void pthread_exit(void *result) __attribute__((noreturn));
DP_HOOK void thrd_exit(int result) __attribute__((noreturn));
DP_HOOK int daemon(int nochdir, int noclose);
DP_HOOK int dlclose(void *handle);
DP_HOOK int capset(void *header, const void *data); /* libc has it, no header of libc does */
DP_HOOK long dp_syscall(long number, long a, long b, long c, long d,
                        DP_SYSCALL_LAST(long)) __asm__(DP_HOOK_NAME("syscall"));
DP_HOOK int dp_prctl(int option, long a, long b, long c, long d) __asm__(DP_HOOK_NAME("prctl"));

void dp_exit(int status)
{
    deltaprof_exit_begins();
    DP_REAL(exit)(status);
}

void _exit(int status)
{
    deltaprof_before_exit();
    DP_REAL(_exit)(status);
    __builtin_unreachable();
}

void _Exit(int status)
{
    _exit(status);
}

void pthread_exit(void *result)
{
    deltaprof_before_thread_exit();
    DP_REAL(pthread_exit)(result);
    __builtin_unreachable();
}

void thrd_exit(int result)
{
    deltaprof_before_thread_exit();
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

/*
 * Each thread has these for itself: name spaces, the root directory, capabilities. Our threads end before the call,
 * because some of these calls want a process with one thread; the calling thread then makes them again, so that they
 * have what it has now.
 */
#define PAUSING(name, pause, parameters, arguments) \
    DP_HOOK int name parameters                     \
    {                                               \
        pause();                                    \
        int result = DP_REAL(name) arguments;       \
        deltaprof_resume();                         \
        return result;                              \
    }

PAUSING(unshare, deltaprof_stop_agent, (int flags), (flags))
PAUSING(setns, deltaprof_stop_agent, (int fd, int type), (fd, type))
PAUSING(chroot, deltaprof_restrict, (const char *path), (path))
PAUSING(capset, deltaprof_restrict, (void *header, const void *data), (header, data))

/* Options of prctl by which the calling thread, and none else, gives up something. */
static inline bool lessens(long option, long a)
{
    return option == PR_SET_NO_NEW_PRIVS || option == PR_CAPBSET_DROP || option == PR_SET_SECUREBITS ||
           option == PR_SET_SPECULATION_CTRL || (option == PR_CAP_AMBIENT && a != PR_CAP_AMBIENT_IS_SET);
}

/* The same by system call: user and group ids too, which libc's functions change in every thread, but not a change of
 * the effective id alone, which is taken back later. */
static bool restricts(long number, long a, long b, long c)
{
    switch (number) {
    case SYS_capset:
    case SYS_chroot:
    case SYS_setgroups:
    case SYS_setuid:
    case SYS_setgid:
    case LANDLOCK_RESTRICT_SELF:
    case LSM_SET_SELF_ATTR:
        return true;
    case SYS_setreuid:
    case SYS_setregid:
        return (int)a != -1;
    case SYS_setresuid:
    case SYS_setresgid:
        return (int)a != -1 || (int)c != -1;
    case SYS_prctl:
        return lessens(a, b);
    default:
        return false;
    }
}

/* A filter of NULL is how programs, and libseccomp in their name, ask whether there is such a thing. */
static inline bool confines(long number, long a, long b, long c)
{
    if (number == SYS_seccomp)
        return a == SECCOMP_SET_MODE_STRICT || (a == SECCOMP_SET_MODE_FILTER && c);
    return number == SYS_prctl && a == PR_SET_SECCOMP && (b != SECCOMP_MODE_FILTER || c);
}

static __attribute__((noinline)) int prctl_pausing(int option, long a, long b, long c, long d)
{
    deltaprof_restrict();
    int result = DP_REAL(prctl)(option, a, b, c, d);
    deltaprof_resume();
    return result;
}

/* Told before the filter stands: afterwards a thread of ours might already die of what it opens. */
int dp_prctl(int option, long a, long b, long c, long d)
{
    if (lessens(option, a))
        return prctl_pausing(option, a, b, c, d);
    if (confines(SYS_prctl, option, a, b))
        deltaprof_before_seccomp();
    return DP_REAL(prctl)(option, a, b, c, d);
}

/* All of these have at most five words, which are in registers. */
static __attribute__((noinline)) long syscall_pausing(long number, long a, long b, long c, long d,
                                                      DP_SYSCALL_LAST(long))
{
    if (number == SYS_unshare || number == SYS_setns)
        deltaprof_stop_agent();
    else
        deltaprof_restrict();
    long result = DP_REAL(syscall)(number, a, b, c, d, DP_SYSCALL_LAST());
    deltaprof_resume();
    return result;
}

/* clone3 has its flags in memory. */
static inline bool makes_thread(long number, long a)
{
    if (number == SYS_clone)
        return a & CLONE_THREAD;
    return number == CLONE3 && a && *(const uint64_t *)a & CLONE_THREAD;
}

static __attribute__((noinline)) long told(long number, long a, long b, long c, long d, DP_SYSCALL_LAST(long))
{
    if (number == SYS_exit_group)
        deltaprof_before_exit();
    else if (number == SYS_execve || number == SYS_execveat)
        dp_before_exec(NULL);
    else if (deltaprof_poll_wanted && makes_thread(number, a))
        deltaprof_thread_begins();
    else if (confines(number, a, b, c))
        deltaprof_before_seccomp();
    return DP_REAL(syscall)(number, a, b, c, d, DP_SYSCALL_LAST());
}

long dp_syscall(long number, long a, long b, long c, long d, DP_SYSCALL_LAST(long))
{
    if (number == SYS_unshare || number == SYS_setns || restricts(number, a, b, c))
        return syscall_pausing(number, a, b, c, d, DP_SYSCALL_LAST());
    if (number == SYS_exit_group || number == SYS_execve || number == SYS_execveat || number == SYS_seccomp ||
        number == SYS_prctl || number == SYS_clone || number == CLONE3)
        return told(number, a, b, c, d, DP_SYSCALL_LAST());
    return DP_REAL(syscall)(number, a, b, c, d, DP_SYSCALL_LAST());
}
