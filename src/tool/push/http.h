/* SPDX-License-Identifier: MIT */
/*
 * tool/push/http.h - sends one request over a new connection, and reports whether it was delivered.
 *
 * Connections are not kept: on a connection that the receiver closed meanwhile, libcurl would send the request again by
 * itself, and it could arrive twice. Context: one thread.
 */
#pragma once

#include "tool/push/body.h"

enum dp_push_verdict {
    DP_PUSH_TAKEN,  /* the receiver accepted it */
    DP_PUSH_LATER,  /* not taken: to be sent again */
    DP_PUSH_NEVER,  /* not taken, and it never will be */
    DP_PUSH_UNKNOWN /* all was sent, and no answer came */
};

struct dp_push_reply {
    enum dp_push_verdict verdict;
    long status; /* HTTP; 0: none came */
    int64_t retry_after_s;
    char why[300]; /* of all but TAKEN, for people */
};

struct dp_push_http_options {
    const char *address, *token_file, *header_file, *ca_file;
    int64_t timeout_ns; /* of a request in all */
};

struct dp_push_http;                                                                                 /* from malloc */
struct dp_push_http *dp_push_http_new(const struct dp_push_http_options *, char *why, size_t n_why); /* NULL: see why */
void dp_push_http_free(struct dp_push_http *);

/*
 * Sends the body. leaving is called once, before the last bytes leave; if it returns an error, they do not. Returns 0
 * with *reply filled in; or leaving's error; or -EIO with reply->why: a file of the options cannot be used.
 */
typedef int (*dp_push_leaving_fn)(void *ctx);
int dp_push_http_send(struct dp_push_http *, const struct dp_push_target *, const struct dp_push_body *,
                      dp_push_leaving_fn leaving, void *ctx, struct dp_push_reply *);
