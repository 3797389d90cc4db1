/* SPDX-License-Identifier: MIT */
/*
 * tool/run/beside.c - starts a pusher or a server that the program does not notice.
 *
 * It is a grandchild of this process, in a session of its own, with none of its descriptors; its parent has
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

/* In the grandchild: nothing of the program is left but descriptors from `kept` on, and they are closed. */
static int leave_program(unsigned kept)
{
    sigset_t none;
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    unsetenv("LD_PRELOAD");
    unsetenv("DELTAPROF_CONF");
    unsetenv("DELTAPROF_RUN");
    for (int number = 1; number <= SIGRTMAX; number++)
        sigaction(number, &by_default, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (chdir("/"))
        return -errno;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, kept, ~0u, 0u))
#endif
        for (int fd = (int)sysconf(_SC_OPEN_MAX); fd-- > (int)kept;)
            close(fd);
    return 0;
}

/* What the grandchild becomes. */
struct beside {
    pid_t program;
    const struct dp_config *conf; /* of a pusher */
    const char *dir;
    const struct dp_run_beside_server *server;
    int lines[2]; /* a pipe for what the server prints */
};

static void become_pusher(const struct beside *b)
{
    char path[PATH_MAX], id[24], log[DP_CONFIG_TEXT + 16];
    const char *to = b->conf->log;
    if (dp_run_pusher_find(path))
        return;
    snprintf(id, sizeof id, "%d", (int)b->program);
    snprintf(log, sizeof log, "%s%s",
             !strcmp(to, "none") ? "/dev/null"
             : strchr(to, '/')   ? to
                                 : b->dir,
             strchr(to, '/') || !strcmp(to, "none") ? "" : "/push.log");
    make_absolute("DELTAPROF_PUSH_TOKEN");
    make_absolute("DELTAPROF_PUSH_HEADER");
    make_absolute("SSL_CERT_FILE");
    if (!leave_program(0) && open("/dev/null", O_RDWR) == 0 && dup(0) == 1 && dup(0) == 2)
        execl(path, "deltaprof push", b->dir, "--to", b->conf->push, "--beside", id, "--wait", "5m", "--log", log,
              NULL);
}

static void become_server(const struct beside *b)
{
    char id[24];
    snprintf(id, sizeof id, "%d", (int)b->program);
    int lines = fcntl(b->lines[1], F_DUPFD_CLOEXEC, 3), nothing = open("/dev/null", O_RDWR);
    if (lines < 0 || nothing < 0 || dup2(lines, 1) != 1 || dup2(lines, 2) != 2 || dup2(nothing, 0) != 0 ||
        leave_program(3))
        return;
    const struct dp_run_beside_server *s = b->server;
    const char *argv[14 + 2 * DP_RUN_BESIDE_TO_MOST] = {"deltaprof", "serve", "--listen", s->address,
                                                        "--while",   id,      "--token",  s->token};
    size_t n = 8;
    if (*s->out) {
        argv[n++] = "-o";
        argv[n++] = s->out;
    }
    for (size_t i = 0; i < s->n_to; i++) {
        argv[n++] = "--to";
        argv[n++] = s->to[i];
    }
    argv[n] = s->tables;
    execv("/proc/self/exe", (char **)argv);
}

/* Starts a process that is no child of this one. 0 or a negative errno. */
static int start(void (*become)(const struct beside *), const struct beside *b)
{
    pid_t child = quiet_clone();
    if (child < 0)
        return -errno;
    if (child == 0) {
        setsid();
        if (quiet_clone() == 0)
            become(b);
        _exit(0);
    }
    while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
        continue;
    return 0;
}

int dp_run_beside_start(const struct dp_config *conf, const char *dir)
{
    const struct beside b = {.program = getpid(), .conf = conf, .dir = dir};
    if (mkdir(dir, 0700) && errno != EEXIST)
        return -errno;
    return start(become_pusher, &b);
}

int dp_run_beside_serve(const struct dp_run_beside_server *server, char *why, size_t n_why)
{
    struct beside b = {.program = getpid(), .server = server};
    int is_reaper = 0;
    size_t n = 0;
    prctl(PR_GET_CHILD_SUBREAPER, &is_reaper);
    if (getpid() == 1 || is_reaper) {
        snprintf(why, n_why,
                 "--serve: COMMAND would become the server's parent, as process 1 or a subreaper; start "
                 "deltaprof serve separately");
        return -EINVAL;
    }
    int err = pipe2(b.lines, O_CLOEXEC) ? -errno : start(become_server, &b);
    if (!err)
        close(b.lines[1]);
    for (ssize_t got = 1; !err && got > 0 && n + 1 < n_why && !(n && why[n - 1] == '\n');
         n += got > 0 ? (size_t)got : 0)
        got = read(b.lines[0], why + n, 1);
    why[n ? n - 1 : 0] = '\0';
    if (!err)
        close(b.lines[0]);
    if (err || !n)
        snprintf(why, n_why, "--serve %s: the server cannot be started%s%s", server->address, err ? ": " : "",
                 err ? strerror(-err) : "");
    return err ? err : strncmp(why, "profiles of ", 12) ? -EINVAL : 0;
}
