/* SPDX-License-Identifier: MIT */
/*
 * exec.c - a process that becomes another program delivers what it has, as one that ends does.
 *
 * Only if it sampled something since it began: most processes that exec are children that forked a moment ago, and what
 * they inherited is their parent's to tell. Not in a child of vfork, which the library knows by its pid. execl and its
 * kin, with their lists, belong to such children too and pass untouched.
 */
#include "hook.h"

#include <errno.h>
#include <unistd.h>

/* path: NULL where it cannot be known. A path that leads nowhere is one of a search. */
static bool delivered(const char *path)
{
    struct deltaprof_stats stats;
    int saved_errno = errno;
    deltaprof_get_stats(&stats, sizeof stats);
    bool deliver = stats.samples && (!path || access(path, X_OK) == 0);
    if (deliver)
        deltaprof_deliver();
    errno = saved_errno;
    return deliver;
}

#define EXEC(name, path, parameters, arguments) \
    DP_HOOK int name parameters                 \
    {                                           \
        bool survives = delivered(path);        \
        int result = DP_REAL(name) arguments;   \
        if (survives)                           \
            deltaprof_survived();               \
        return result;                          \
    }

EXEC(execve, path, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp))
EXEC(execv, path, (const char *path, char *const argv[]), (path, argv))
EXEC(execvp, NULL, (const char *file, char *const argv[]), (file, argv))
EXEC(execvpe, NULL, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp))
EXEC(fexecve, NULL, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp))
