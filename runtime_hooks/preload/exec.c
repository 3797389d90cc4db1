/* SPDX-License-Identifier: MIT */
/*
 * exec.c - hooks of exec: a process that executes another program delivers its last profiles, as one that ends does.
 *
 * Nothing is delivered if the process has no samples of its own: most processes that exec were forked a moment ago, and
 * their parent reports the inherited memory. Nothing is delivered in a child of vfork either, which the library
 * recognizes by its pid.
 *
 * An exec may fail; then the end of the process must deliver again. The library is told so before the call, because the
 * hook passes execl's arguments on unchanged by a jump, as for syscall (symbols.h), and does not return.
 */
#include "hook.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noinline)) void dp_before_exec(const char *path)
{
    int saved_errno = errno;
    if (deltaprof_has_samples() && (!path || access(path, X_OK) == 0)) {
        deltaprof_before_exit();
        deltaprof_exit_cancelled();
    }
    errno = saved_errno;
}

#ifdef DP_WRAP /* a program that was not preloaded: its children are not either */
#define dp_say_if_musl(path) ((void)(path))
#endif

/* A name without a slash is searched for in PATH, by libc. */
static void say_of_file(const char *file)
{
    if (strchr(file, '/'))
        dp_say_if_musl(file);
}

#define EXEC(name, path, say, parameters, arguments)               \
    DP_HOOK int dp_##name parameters __asm__(DP_HOOK_NAME(#name)); \
    int dp_##name parameters                                       \
    {                                                              \
        dp_before_exec(path);                                      \
        say;                                                       \
        return DP_REAL(name) arguments;                            \
    }

EXEC(execve, path, dp_say_if_musl(path), (const char *path, char *const argv[], char *const envp[]), (path, argv, envp))
EXEC(execv, path, dp_say_if_musl(path), (const char *path, char *const argv[]), (path, argv))
EXEC(execvp, NULL, say_of_file(file), (const char *file, char *const argv[]), (file, argv))
EXEC(execvpe, NULL, say_of_file(file), (const char *file, char *const argv[], char *const envp[]), (file, argv, envp))
EXEC(fexecve, NULL, (void)0, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp))
EXEC(execl, path, dp_say_if_musl(path), (const char *path, DP_EXEC_LIST(long)), (path, DP_EXEC_LIST()))
EXEC(execle, path, dp_say_if_musl(path), (const char *path, DP_EXEC_LIST(long)), (path, DP_EXEC_LIST()))
EXEC(execlp, NULL, say_of_file(file), (const char *file, DP_EXEC_LIST(long)), (file, DP_EXEC_LIST()))

/* Not in symbols.h: an old libc lacks it, and missing functions must not be searched for (real.c). */
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
