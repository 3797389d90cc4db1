/* SPDX-License-Identifier: MIT */
/* endpoint/request.h - parses a request from its method and target alone: pure, no state, no memory. */
#pragma once

#include "config/config.h"
#include "profile/kinds.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dp_http_request_page {
    DP_HTTP_PAGE_INDEX,
    DP_HTTP_PAGE_PROFILE,
    DP_HTTP_PAGE_SYMBOL,
    DP_HTTP_PAGE_CMDLINE,
    DP_HTTP_PAGE_VIEW,
    DP_HTTP_PAGE_WAITS,
    DP_HTTP_PAGE_METRICS,
    DP_HTTP_PAGE_ERROR,
};

#define DP_CURSOR_NAME_MAX 64
#define DP_SECONDS_MAX     3600
#define DP_MAX_SAMPLES_MAX 1000000000

struct dp_http_request {
    enum dp_http_request_page page;
    int status;          /* 200, or the error's */
    const char *message; /* of an error: one line */
    bool head;

    unsigned kind;                          /* enum dp_kind_id */
    const struct dp_kind_endpoint *profile; /* NULL: the page is no profile */
    bool text;                              /* debug=1 */
    int64_t seconds;                        /* 0: none */

    char cursor[DP_CURSOR_NAME_MAX + 1]; /* "": the shared default */
    unsigned locks;                      /* bit k: lock kind k; 0: all */
    bool from_now;
    int pid;           /* 0: not asked for one process */
    bool acknowledges; /* after= was given */
    uint64_t after;

    /* The request's own settings; those that are not given are the present ones. */
    bool has_types, has_symbolize, has_max_samples, has_age, age;
    enum dp_types types;
    enum dp_symbolize symbolize;
    int64_t max_samples;

    const char *query; /* of GET symbol; points into target */
};

/* Error messages are static; target must outlive request->query. */
void dp_http_request_parse(struct dp_http_request *request, const char *method, const char *target);

/*
 * Refuses a profile of a kind that is off in the process with this pid; 0: in all processes. A profile without rows
 * would claim that nothing happened. line: gets the reason.
 */
void dp_http_request_refuse_off(struct dp_http_request *request, int pid, char *line, size_t n_line);
