/* SPDX-License-Identifier: MIT */
/*
 * tool/push/headers.c - reads the files of --header and --token.
 *
 * They are read for each request, because a secret may be replaced at any time. Therefore they are regular files: a
 * pipe would have a token for the first request only.
 */
#include "tool/push/headers.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* The headers that describe the body, and those of the connection: push sets them itself. */
static const char *const own[] = {
    "Connection", "Content-Encoding", "Content-Length",    "Content-Type", "Expect", "Idempotency-Key",
    "TE",         "Trailer",          "Transfer-Encoding", "Upgrade"};

static FILE *open_file(const char *path, char *why, size_t n_why)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* does not wait for the writer of a pipe */
    FILE *file = NULL;
    if (fd < 0 || fstat(fd, &st))
        snprintf(why, n_why, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        snprintf(why, n_why, "%s: not a regular file", path);
    else if (!(file = fdopen(fd, "r")))
        snprintf(why, n_why, "%s: %s", path, strerror(errno));
    if (!file && fd >= 0)
        close(fd);
    return file;
}

/* What keeps a line from being sent as it stands; NULL: nothing. */
static const char *fault_of_text(const char *line, size_t n_line)
{
    if (n_line > DP_PUSH_HEADER_BYTES)
        return "is longer than 8192 bytes";
    for (size_t i = 0; i < n_line; i++)
        if ((uint8_t)line[i] < ' ' ? line[i] != '\t' : line[i] == 127)
            return "has a control character";
    return NULL;
}

/* The same of a header. Source of the characters of a name: RFC 9110, 5.6.2. */
static const char *fault_of_header(const char *line)
{
    static const char letters[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t n_name = strspn(line, letters);
    const char *value = line + n_name + 1;
    if (!n_name || line[n_name] != ':')
        return "is not `Name: value`";
    if (!value[strspn(value, " \t")])
        return "has no value";
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strlen(own[i]) == n_name && !strncasecmp(line, own[i], n_name))
            return "names a header that push sets itself";
    return NULL;
}

static int read_lines(const char *path, bool is_token, dp_push_header_fn use, void *ctx, char *why, size_t n_why)
{
    char *line = NULL;
    size_t room = 0, number = 0, n_used = 0;
    int err = 0;
    FILE *file = open_file(path, why, n_why);
    if (!file)
        return -EIO;
    errno = 0;
    for (ssize_t n; !err && !(is_token && n_used) && (n = getline(&line, &room, file)) > 0;) {
        number++;
        while (n && isspace((uint8_t)line[n - 1]))
            line[--n] = 0;
        if (!n)
            continue;
        const char *fault = fault_of_text(line, (size_t)n);
        fault = fault || is_token ? fault : fault_of_header(line);
        if (fault) {
            snprintf(why, n_why, "%s: line %zu %s", path, number, fault);
            err = -EIO;
            break;
        }
        err = use(ctx, line);
        n_used++;
    }
    if (!err && !(is_token && n_used) && !feof(file)) {
        snprintf(why, n_why, "%s: %s", path, strerror(errno));
        err = -EIO;
    } else if (!err && !n_used) {
        snprintf(why, n_why, "%s: no %s in it", path, is_token ? "token" : "header");
        err = -EIO;
    }
    free(line);
    fclose(file);
    return err;
}

int dp_push_headers_read(const char *path, dp_push_header_fn header, void *ctx, char *why, size_t n_why)
{
    return read_lines(path, false, header, ctx, why, n_why);
}

int dp_push_headers_token(const char *path, dp_push_header_fn token, void *ctx, char *why, size_t n_why)
{
    return read_lines(path, true, token, ctx, why, n_why);
}
