/* SPDX-License-Identifier: MIT */
/* http/reply_headers.h - the headers of a reply. */
#pragma once

#include "http/request.h"

#include <sys/types.h>

#define DP_REPLY_HEADERS 9 /* at most */

struct dp_reply_headers {
    struct {
        const char *name, *value;
    } at[DP_REPLY_HEADERS];
    size_t n;
    char seq[24], pid[16], disposition[64]; /* values that are made for this reply */
};

/*
 * Replaces the headers by those of a reply to this request, whose page may be DP_PAGE_ERROR. Values point into the
 * struct and to constants.
 */
void dp_reply_headers_write(struct dp_reply_headers *, const struct dp_request *, uint64_t seq, pid_t pid);
