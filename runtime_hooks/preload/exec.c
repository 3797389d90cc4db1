/* SPDX-License-Identifier: MIT */
/*
 * exec.c - a process that becomes another program delivers what it has, as one that ends does.
 *
 * Only if it sampled something since it began: most processes that exec are children that forked a moment ago, and what
 * they inherited is their parent's to tell. Not in a child of vfork, which the library knows by its pid.
 *
 * An exec may fail, and a later end delivers again; that is said before the call, for then the lists of execl and its
 * kin pass by untouched, by a jump, as syscall's words do (symbols.h).
 */
#include "hook.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not inlined: a frame with stats in it is one that clang does not jump out of. */
__attribute__((noinline)) void dp_before_exec(const char *path)
{
    struct deltaprof_stats stats;
    int saved_errno = errno;
    deltaprof_get_stats(&stats, sizeof stats);
    if (stats.samples && (!path || access(path, X_OK) == 0)) {
        deltaprof_before_exit();
        deltaprof_exit_cancelled();
    }
    errno = saved_errno;
}

#define EXEC(name, path, parameters, arguments)                    \
    DP_HOOK int dp_##name parameters __asm__(DP_HOOK_NAME(#name)); \
    int dp_##name parameters                                       \
    {                                                              \
        dp_before_exec(path);                                      \
        return DP_REAL(name) arguments;                            \
    }

EXEC(execve, path, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp))
EXEC(execv, path, (const char *path, char *const argv[]), (path, argv))
EXEC(execvp, NULL, (const char *file, char *const argv[]), (file, argv))
EXEC(execvpe, NULL, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp))
EXEC(fexecve, NULL, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp))
EXEC(execl, path, (const char *path, DP_EXEC_LIST(long)), (path, DP_EXEC_LIST()))
EXEC(execle, path, (const char *path, DP_EXEC_LIST(long)), (path, DP_EXEC_LIST()))
EXEC(execlp, NULL, (const char *file, DP_EXEC_LIST(long)), (file, DP_EXEC_LIST()))

/* No row of symbols.h: an old libc lacks it, and what is not there must not be searched for (real.c). */
DP_HOOK int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags);
int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags)
{
    dp_before_exec(NULL);
#if defined(__x86_64__)
    return (int)DP_REAL(syscall)(SYS_execveat, dir, (long)path, (long)argv, (long)envp, flags);
#else
    return (int)DP_REAL(syscall)(SYS_execveat, dir, (long)path, (long)argv, (long)envp, flags, 0);
#endif
}
