/* SPDX-License-Identifier: MIT */
/* endpoint/reply_headers.h - chooses the headers of an HTTP reply. */
#pragma once

#include "endpoint/request.h"

#include <sys/types.h>

#define DP_REPLY_HEADERS 9 /* at most */

struct dp_http_reply_headers {
    struct {
        const char *name, *value;
    } at[DP_REPLY_HEADERS];
    size_t n;
    char seq[24], pid[16], disposition[64]; /* text of the values that are no constants */
};

/*
 * Sets the headers of the reply to this request. type: the Content-Type, unless the reply is a binary profile. The
 * request's page may be DP_HTTP_PAGE_ERROR. Values point to constants or into the struct, so a copy of the struct is
 * invalid.
 */
void dp_http_reply_headers_write(struct dp_http_reply_headers *, const struct dp_http_request *, const char *type,
                                 uint64_t seq, pid_t pid);
