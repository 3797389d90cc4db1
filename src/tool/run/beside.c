/* SPDX-License-Identifier: MIT */
/*
 * tool/run/beside.c - starts a pusher that the program does not notice.
 *
 * The pusher is a grandchild of this process, in a session of its own, with none of its descriptors; its parent has
 * ended, so init or another reaper inherits it. The clones carry no signal: the program finds no SIGCHLD pending, no
 * child to wait for, and its own process id, group, session and descriptors as without a pusher.
 *
 * That is not possible where this process itself would inherit the pusher: as process 1 of a container, and as a
 * subreaper.
 */
#include "tool/run/beside.h"

#include "tool/run/pusher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Expands %h and %%; false: %e or %p, which stand for many directories. */
static bool expand(char to[DP_CONFIG_TEXT], const char *out)
{
    char host[256] = "";
    size_t n = 0;
    gethostname(host, sizeof host - 1);
    for (; *out && n + sizeof host < DP_CONFIG_TEXT; out++) {
        if (*out != '%')
            to[n++] = *out;
        else if (*++out == '%')
            to[n++] = '%';
        else if (*out == 'h')
            n += (size_t)snprintf(to + n, sizeof host, "%s", host);
        else
            return false;
    }
    to[n] = 0;
    return !*out;
}

int dp_run_beside_check(const struct dp_config *conf, char dir[DP_CONFIG_TEXT], char *why, size_t n_why)
{
    int is_reaper = 0;
    char path[PATH_MAX];
    prctl(PR_GET_CHILD_SUBREAPER, &is_reaper);
    const char *reason =
        !*conf->out               ? "needs out=DIR, whose files are sent"
        : !expand(dir, conf->out) ? "needs one directory: out=DIR without %e and %p"
        : getpid() == 1 || is_reaper
            ? "COMMAND would become the pusher's parent, as process 1 or a subreaper; start deltaprof push separately"
        : dp_run_pusher_find(path) ? "deltaprof-push is not installed"
                                   : NULL;
    if (!reason)
        return 0;
    snprintf(why, n_why, "push=%s: %s", conf->push, reason);
    return -EINVAL;
}

static pid_t quiet_clone(void)
{
    return (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
}

/* Files that the environment names must be found from /, too. */
static void make_absolute(const char *name)
{
    char path[PATH_MAX];
    const char *file = getenv(name);
    if (file && *file && *file != '/' && realpath(file, path))
        setenv(name, path, 1);
}

/* In the grandchild: becomes the pusher. */
static void become_pusher(const struct dp_config *conf, const char *dir, pid_t program)
{
    char path[PATH_MAX], id[24], log[DP_CONFIG_TEXT + 16];
    sigset_t none;
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    if (dp_run_pusher_find(path))
        return;
    snprintf(id, sizeof id, "%d", (int)program);
    snprintf(log, sizeof log, "%s%s",
             !strcmp(conf->log, "none") ? "/dev/null"
             : strchr(conf->log, '/')   ? conf->log
                                        : dir,
             strchr(conf->log, '/') || !strcmp(conf->log, "none") ? "" : "/push.log");
    make_absolute("DELTAPROF_PUSH_TOKEN");
    make_absolute("DELTAPROF_PUSH_HEADER");
    make_absolute("SSL_CERT_FILE");
    unsetenv("LD_PRELOAD");
    unsetenv("DELTAPROF_CONF");
    unsetenv("DELTAPROF_RUN");
    for (int number = 1; number <= SIGRTMAX; number++)
        sigaction(number, &by_default, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (chdir("/"))
        return;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 0u, ~0u, 0u))
#endif
        for (int fd = (int)sysconf(_SC_OPEN_MAX); fd-- > 0;)
            close(fd);
    if (open("/dev/null", O_RDWR) == 0 && dup(0) == 1 && dup(0) == 2)
        execl(path, "deltaprof push", dir, "--to", conf->push, "--beside", id, "--wait", "5m", "--log", log, NULL);
}

int dp_run_beside_start(const struct dp_config *conf, const char *dir)
{
    pid_t program = getpid();
    if (mkdir(dir, 0700) && errno != EEXIST)
        return -errno;
    pid_t child = quiet_clone();
    if (child < 0)
        return -errno;
    if (child == 0) {
        setsid();
        if (quiet_clone() == 0)
            become_pusher(conf, dir, program);
        _exit(0);
    }
    while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
        continue;
    return 0;
}
