/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/out.c - writes an output file. It is opened only after every input was read and checked, and appears only
 * when complete.
 */
#include "tool/cli/out.h"

#include "base/atomic.h"
#include "base/io.h"
#include "tool/query/print.h"
#include "tool/query/files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 100 };

static char *_Atomic unfinished; /* relaxed: read by handlers of this one thread */

static void remove_and_die(int signal_number)
{
    char *path = dp_load_relaxed(&unfinished);
    if (path)
        unlink(path);
    raise(signal_number); /* SA_RESETHAND: the default action, when this returns */
}

/* A signal that is ignored stays ignored. */
static void remove_when_killed(char *path)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction ours = {.sa_handler = remove_and_die, .sa_flags = (int)SA_RESETHAND}, before;
    dp_store_relaxed(&unfinished, path);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!sigaction(signals[i], NULL, &before) && before.sa_handler == SIG_DFL)
            sigaction(signals[i], &ours, NULL);
}

static int write_all(void *ctx, const void *bytes, size_t n_bytes)
{
    struct dp_cli_out *out = ctx;
    return dp_io_write(out->fd, bytes, n_bytes);
}

static int open_file(struct dp_cli_out *out)
{
    struct stat st;
    bool is_there = !stat(out->path, &st);
    if (is_there && !S_ISREG(st.st_mode))
        return open(out->path, O_WRONLY | O_CLOEXEC);
    out->target = is_there ? realpath(out->path, NULL) : strdup(out->path);
    mode_t mode = dp_query_read_modes();
    if (is_there)
        mode &= st.st_mode;
    for (int try = 0; out->target && try < TRIES; try++) { /* an earlier process with this pid may have left one */
        free(out->temporary);
        if (asprintf(&out->temporary, "%s.%d-%d.tmp", out->target, (int)getpid(), try) < 0) {
            out->temporary = NULL;
            return -1;
        }
        if (!access(out->temporary, F_OK))
            continue;
        remove_when_killed(out->temporary); /* before the file exists, so that no moment is missed */
        int fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode | S_IWUSR);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

int dp_cli_out_open_plain(struct dp_cli_out *out, const char *verb, const char *path)
{
    if (path && (!strcmp(path, "-") || !strcmp(path, "/dev/stdout")))
        path = NULL;
    *out = (struct dp_cli_out){.verb = verb, .path = path, .fd = STDOUT_FILENO};
    if (path && (out->fd = open_file(out)) < 0) {
        dp_query_print_error(verb, "%s: %s", errno == EEXIST ? out->temporary : path, strerror(errno));
        dp_store_relaxed(&unfinished, NULL);
        free(out->temporary);
        free(out->target);
        return DP_EXIT_FAILED;
    }
    if (isatty(out->fd)) {
        dp_query_print_error(verb, "the output is not for a terminal: give -o FILE");
        if (path)
            close(out->fd);
        return DP_EXIT_USAGE;
    }
    return 0;
}

int dp_cli_out_open(struct dp_cli_out *out, const char *verb, const char *path)
{
    int status = dp_cli_out_open_plain(out, verb, path);
    if (status)
        return status;
    out->gzip = dp_gzip_new(write_all, out);
    return out->gzip ? 0 : dp_cli_out_close(out, -ENOMEM);
}

int dp_cli_out_write(void *ctx, const void *bytes, size_t n_bytes)
{
    struct dp_cli_out *out = ctx;
    return out->gzip ? dp_gzip_write(out->gzip, bytes, n_bytes) : write_all(out, bytes, n_bytes);
}

int dp_cli_out_close(struct dp_cli_out *out, int result)
{
    if (!result && out->gzip)
        result = dp_gzip_finish(out->gzip);
    if (out->path && close(out->fd) && !result)
        result = -errno;
    if (!result && out->temporary && rename(out->temporary, out->target))
        result = -errno;
    if (result && out->temporary)
        unlink(out->temporary);
    if (result)
        dp_query_print_error(out->verb, "%s: %s", out->path ? out->path : "standard output", strerror(-result));
    dp_store_relaxed(&unfinished, NULL);
    dp_gzip_free(out->gzip);
    free(out->temporary);
    free(out->target);
    return result ? DP_EXIT_FAILED : 0;
}
