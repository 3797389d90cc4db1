/* SPDX-License-Identifier: MIT */
/*
 * tool/recover/reader.c - the process that reads one table: it loads the library, which lays the tables out, and
 * answers the questions of its parent until that closes the socket.
 */
#include "base/io.h"
#include "base/mem.h"
#include "profile/file_name.h"
#include "tool/recover/library.h"
#include "tool/recover/protocol.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The files of the process whose tables are read. */
struct files {
    const char *directory, *program;
    int pid;
};

bool dp_recover_receive(int fd, void *bytes, size_t n_bytes)
{
    return dp_io_read(fd, bytes, n_bytes) == (ssize_t)n_bytes;
}

bool dp_recover_send(int fd, const void *bytes, size_t n_bytes)
{
    for (const char *at = bytes; n_bytes;) {
        ssize_t n = send(fd, at, n_bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

static bool is_written(void *ctx, unsigned kind, uint32_t seq)
{
    const struct files *files = ctx;
    char name[DP_PROFILE_NAME_MAX], path[PATH_MAX + DP_PROFILE_NAME_MAX];
    dp_profile_name_format(name, files->program, files->pid, seq, kind);
    snprintf(path, sizeof path, "%s/%s", files->directory, name);
    return *files->directory && !access(path, F_OK);
}

static int send_part(void *ctx, const void *bytes, size_t n_bytes)
{
    uint32_t n = (uint32_t)n_bytes;
    (void)ctx;
    if (!n)
        return 0;
    return dp_recover_send(DP_RECOVER_FD_SOCKET, &n, sizeof n) && dp_recover_send(DP_RECOVER_FD_SOCKET, bytes, n_bytes)
               ? 0
               : -EPIPE;
}

static void obey(const struct deltaprof_outside *outside, const char *proc, struct files *files,
                 const struct dp_recover_question *q, struct dp_recover_answer *a)
{
    switch (q->what) {
    case DP_RECOVER_WRITE:
        a->err = outside->write(q->kind, q->flags, send_part, NULL, &a->profile);
        break;
    case DP_RECOVER_KEEP:
        a->err = outside->keep(DP_RECOVER_FD_TABLE, q->kind, q->seq);
        break;
    case DP_RECOVER_KEPT:
        a->err = outside->kept(DP_RECOVER_FD_TABLE, q->kind);
        break;
    case DP_RECOVER_WAITS:
        a->err = outside->waits(send_part, NULL);
        break;
    case DP_RECOVER_SETTLE:
        a->err = outside->settle(DP_RECOVER_FD_TABLE);
        break;
    default:
        a->err = outside->adopt(DP_RECOVER_FD_TABLE, proc, is_written, files, a->why, sizeof a->why);
        if (!a->err)
            a->highest = outside->highest();
    }
}

/* A server has a reader for each process, so a reader gives back at once what it does not use. */
static void keep_heap_small(void)
{
#ifdef M_TRIM_THRESHOLD /* not in musl */
    mallopt(M_TRIM_THRESHOLD, 0);
    mallopt(M_TOP_PAD, 0);
#endif
}

/* --read-tables PROC DIRECTORY PROGRAM PID */
int dp_recover_reader(int argc, char **argv)
{
    char why[DP_RECOVER_WHY] = "";
    if (argc != 6)
        return 2;
    keep_heap_small();
    const char *proc = argv[2];
    struct files files = {argv[3], argv[4], 0};
    if (sscanf(argv[5], "%d", &files.pid) != 1)
        return 2;
    const struct deltaprof_outside *outside = dp_recover_library(why, sizeof why);
    if (!outside && !getenv("LD_PRELOAD"))
        dp_recover_library_preload(argv);
    struct dp_recover_question q;
    while (dp_recover_receive(DP_RECOVER_FD_SOCKET, &q, sizeof q)) {
        struct dp_recover_answer a = {.err = outside ? 0 : -ENOENT};
        const uint32_t end = 0;
        if (!outside)
            memcpy(a.why, why, sizeof why);
        else
            obey(outside, proc, &files, &q, &a);
        if (!dp_recover_send(DP_RECOVER_FD_SOCKET, &end, sizeof end) ||
            !dp_recover_send(DP_RECOVER_FD_SOCKET, &a, sizeof a))
            break;
    }
    _exit(0);
}
