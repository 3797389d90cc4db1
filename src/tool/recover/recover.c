/* SPDX-License-Identifier: MIT */
/*
 * tool/recover/recover.c - opens a table: starts the process that reads it (reader.c) and asks it for profiles. The
 * reader is a program of its own, not a fork: the caller may have threads, and what a broken process left behind may
 * end the reader.
 */
#include "base/text.h"
#include "tool/query/installed.h"
#include "tool/recover/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct dp_recover {
    int socket;
    pid_t reader;
    bool is_dead;
    uint32_t highest;
};

/*
 * The command deltaprof: this program, or the one beside it. is_other: that of the build for the other C library.
 * False: there is none.
 */
static bool find_command(bool is_other, char path[PATH_MAX])
{
    static const char *const here[] = {"."}, *const others[] = {DP_BIN_TO_LIB DP_OTHER_LIBC_COMMAND,
                                                                DP_LIBDIR DP_OTHER_LIBC_COMMAND};
    char self[PATH_MAX], dir[PATH_MAX];
    if (!dp_query_naming_installed(is_other ? others : here, is_other ? 2 : 1, "deltaprof", self, dir)) {
        snprintf(path, PATH_MAX, "%.*s/deltaprof", PATH_MAX - 16, dir);
        return true;
    }
    snprintf(path, PATH_MAX, "/proc/self/exe");
    return !is_other;
}

/* Without LD_PRELOAD: a reader is not profiled. */
static char **reader_environment(void)
{
    size_t n = 0, kept = 0;
    while (environ[n])
        n++;
    char **copy = calloc(n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) && strncmp(environ[i], "DELTAPROF_CONF=", 15))
            copy[kept++] = environ[i];
    return copy;
}

static int start_reader(struct dp_recover *r, const char *path, int table_fd, const struct dp_recover_table *table)
{
    char proc[32] = "", pid[16];
    int ends[2];
    if (table->state == DP_RECOVER_LIVES)
        snprintf(proc, sizeof proc, "/proc/%d", table->is_elsewhere ? 0 : (int)table->pid);
    snprintf(pid, sizeof pid, "%d", (int)table->pid);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return -errno;
    /* Numbers above those that the reader gets, so that no dup2 overwrites the other one. */
    int socket = fcntl(ends[1], F_DUPFD_CLOEXEC, 10), file = fcntl(table_fd, F_DUPFD_CLOEXEC, 10);
    char *argv[] = {
        (char *)"deltaprof", (char *)"--read-tables", proc, (char *)table->out, (char *)table->program, pid, NULL};
    char **env = reader_environment();
    posix_spawn_file_actions_t actions;
    int err = env && socket >= 0 && file >= 0 ? 0 : -ENOMEM;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, socket, DP_RECOVER_FD_SOCKET);
    posix_spawn_file_actions_adddup2(&actions, file, DP_RECOVER_FD_TABLE);
    if (!err)
        err = -posix_spawn(&r->reader, path, &actions, NULL, argv, env);
    posix_spawn_file_actions_destroy(&actions);
    free(env);
    close(ends[1]);
    if (socket >= 0)
        close(socket);
    if (file >= 0)
        close(file);
    if (err)
        close(ends[0]);
    else
        r->socket = ends[0];
    return err;
}

/* Passes the parts of a profile to fn, and receives the answer. After an error of fn the rest is dropped. */
static int answer(struct dp_recover *r, deltaprof_write_fn fn, void *ctx, struct dp_recover_answer *a)
{
    static _Thread_local char part[1 << 16];
    int failed = 0;
    uint32_t n;
    while (dp_recover_receive(r->socket, &n, sizeof n)) {
        if (!n)
            return dp_recover_receive(r->socket, a, sizeof *a) ? (failed ? failed : a->err) : -EPIPE;
        for (uint32_t left = n; left;) {
            uint32_t now = left < sizeof part ? left : (uint32_t)sizeof part;
            if (!dp_recover_receive(r->socket, part, now))
                return -EPIPE;
            if (!failed && fn)
                failed = fn(ctx, part, now);
            left -= now;
        }
    }
    return -EPIPE;
}

/* Asks; the answer is read later. A reader that is gone has none. */
static void send_question(struct dp_recover *r, const struct dp_recover_question *q)
{
    r->is_dead = r->is_dead || !dp_recover_send(r->socket, q, sizeof *q);
}

static int receive_answer(struct dp_recover *r, deltaprof_write_fn fn, void *ctx, struct dp_recover_answer *a)
{
    memset(a, 0, sizeof *a);
    int err = r->is_dead ? -EPIPE : answer(r, fn, ctx, a);
    r->is_dead = err == -EPIPE;
    return err;
}

static int ask(struct dp_recover *r, const struct dp_recover_question *q, deltaprof_write_fn fn, void *ctx,
               struct dp_recover_answer *a)
{
    send_question(r, q);
    return receive_answer(r, fn, ctx, a);
}

void dp_recover_refresh_begin(struct dp_recover *r)
{
    send_question(r, &(struct dp_recover_question){0});
}

int dp_recover_refresh_end(struct dp_recover *r, char *why)
{
    struct dp_recover_answer a;
    int err = receive_answer(r, NULL, NULL, &a);
    a.why[sizeof a.why - 1] = '\0';
    if (a.highest > r->highest)
        r->highest = a.highest;
    if (err)
        dp_text_format(why, DP_RECOVER_WHY, "%s", *a.why ? a.why : "its reader ended: the tables are damaged");
    return err;
}

int dp_recover_refresh(struct dp_recover *r, char *why)
{
    dp_recover_refresh_begin(r);
    return dp_recover_refresh_end(r, why);
}

/* Starts a reader and lets it copy the tables. NULL, and the error with its reason. */
static struct dp_recover *open_by(const char *path, int fd, const struct dp_recover_table *table, int *err, char *why)
{
    struct dp_recover *r = calloc(1, sizeof *r);
    *err = r ? start_reader(r, path, fd, table) : -ENOMEM;
    if (*err) {
        dp_text_format(why, DP_RECOVER_WHY, "%s", strerror(-*err));
        free(r);
        return NULL;
    }
    *err = dp_recover_refresh(r, why);
    if (!*err)
        return r;
    dp_recover_close(r);
    return NULL;
}

struct dp_recover *dp_recover_open(const char *directory, const struct dp_recover_table *table, char *why)
{
    const char *what;
    char path[PATH_MAX], text[DP_RECOVER_WHY], other_text[DP_RECOVER_WHY];
    int dir = dp_tables_place_open(directory, false, &what);
    int fd = dir < 0 ? dir : openat(dir, table->name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && dir >= 0 && (errno == EACCES || errno == EROFS)) /* profiles can be made, but no files kept */
        fd = openat(dir, table->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    int err = fd < 0 ? (dir < 0 ? dir : -errno) : 0;
    struct dp_recover *r = NULL;
    if (dir >= 0)
        close(dir);
    if (err) {
        dp_text_format(text, sizeof text, "%s", strerror(-err));
    } else {
        find_command(false, path);
        r = open_by(path, fd, table, &err, text);
        if (!r && err == -ESTALE && find_command(true, path))
            r = open_by(path, fd, table, &err, other_text);
        close(fd);
    }
    if (!r)
        dp_text_format(why, DP_RECOVER_WHY, "%s/%s: %s", directory, table->name, text);
    return r;
}

void dp_recover_write_begin(struct dp_recover *r, unsigned kind, unsigned flags)
{
    send_question(r, &(struct dp_recover_question){DP_RECOVER_WRITE, kind, flags, 0});
}

int dp_recover_write_end(struct dp_recover *r, deltaprof_write_fn fn, void *ctx,
                         struct deltaprof_outside_profile *profile)
{
    struct dp_recover_answer a;
    int err = receive_answer(r, fn, ctx, &a);
    if (profile)
        *profile = a.profile;
    return err;
}

int dp_recover_write(struct dp_recover *r, unsigned kind, unsigned flags, deltaprof_write_fn fn, void *ctx,
                     struct deltaprof_outside_profile *profile)
{
    dp_recover_write_begin(r, kind, flags);
    return dp_recover_write_end(r, fn, ctx, profile);
}

int dp_recover_keep(struct dp_recover *r, unsigned kind, uint32_t seq)
{
    const struct dp_recover_question q = {DP_RECOVER_KEEP, kind, 0, seq};
    struct dp_recover_answer a;
    if (seq > r->highest)
        r->highest = seq;
    return ask(r, &q, NULL, NULL, &a);
}

int dp_recover_kept(struct dp_recover *r, unsigned kind)
{
    const struct dp_recover_question q = {DP_RECOVER_KEPT, kind, 0, 0};
    struct dp_recover_answer a;
    return ask(r, &q, NULL, NULL, &a);
}

int dp_recover_waits(struct dp_recover *r, deltaprof_write_fn fn, void *ctx)
{
    const struct dp_recover_question q = {DP_RECOVER_WAITS, 0, 0, 0};
    struct dp_recover_answer a;
    return ask(r, &q, fn, ctx, &a);
}

int dp_recover_settle(struct dp_recover *r)
{
    const struct dp_recover_question q = {DP_RECOVER_SETTLE, 0, 0, 0};
    struct dp_recover_answer a;
    return ask(r, &q, NULL, NULL, &a);
}

uint32_t dp_recover_highest(const struct dp_recover *r)
{
    return r->highest;
}

void dp_recover_close(struct dp_recover *r)
{
    if (!r)
        return;
    close(r->socket);
    while (waitpid(r->reader, NULL, 0) < 0 && errno == EINTR) {
    }
    free(r);
}
