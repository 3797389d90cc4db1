/* SPDX-License-Identifier: MIT */
/*
 * modules/http_upload.h - keeps the bodies of requests, in memory that counts against `memory`. A body is counted
 * before it comes, so that all current bodies together stay below a limit.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct dp_http_server_calls;

/* The bodies of all current requests of a server. The caller sets `calls`. */
struct dp_http_uploads {
    const struct dp_http_server_calls *calls;
    size_t announced; /* bytes that came or may come */
};

/* The body of one request. Zero is an empty one. */
struct dp_http_upload {
    char *bytes;
    size_t n, cap;
    size_t announced; /* its part of the server's */
    bool too_long;    /* more came than the limit: the body is incomplete */
};

/*
 * Counts a body that comes next. length: the header Content-Length, or NULL; a chunked body counts as the longest one.
 * 200, or the status that refuses the body before it comes, with a line in *message.
 */
int dp_http_upload_announce(struct dp_http_uploads *, struct dp_http_upload *, const char *length, bool chunked,
                            const char **message);

/* Appends bytes. 0, also if the body is too long, or -ENOMEM. */
int dp_http_upload_add(struct dp_http_uploads *, struct dp_http_upload *, const char *bytes, size_t n_bytes);

/* Frees the body and takes it out of the count. */
void dp_http_upload_drop(struct dp_http_uploads *, struct dp_http_upload *);
