/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/http/endpoint_client.h - calls the endpoint's functions as a client would, without a socket; and makes
 * events that its profiles then show.
 */
#pragma once

#include "config/config.h"
#include "host/http/endpoint.h"
#include "host/api/recording.h"
#include "host/report/profile.h"
#include "host/report/settings.h"

#include <deltaprof/hooks.h>
#include <deltaprof/http.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct answer {
    int status;
    uint64_t seq;
    char type[64], go[8];
    size_t n;
    char body[1 << 20];
    long error;
};

static struct answer got;

static inline struct deltaprof_http_reply *begin(const char *method, const char *target, const char *body)
{
    struct deltaprof_http_request request = {method, target, body, body ? strlen(body) : 0};
    struct deltaprof_http_reply *reply;
    assert_int_equal(deltaprof_http_begin(&request, &reply), 0);
    return reply;
}

static inline void head_of(struct deltaprof_http_reply *reply)
{
    const char *name, *value;
    memset(&got, 0, offsetof(struct answer, body));
    got.status = deltaprof_http_status(reply);
    for (size_t i = 0; !deltaprof_http_header(reply, i, &name, &value); i++) {
        if (!strcmp(name, "X-Deltaprof-Seq"))
            got.seq = strtoull(value, NULL, 10);
        if (!strcmp(name, "Content-Type"))
            snprintf(got.type, sizeof got.type, "%s", value);
        if (!strcmp(name, "X-Go-Pprof"))
            snprintf(got.go, sizeof got.go, "%s", value);
    }
}

/* Reads at most `most` bytes; true at the end of the body. */
static inline bool pull(struct deltaprof_http_reply *reply, size_t most)
{
    while (got.n < most) {
        size_t room = sizeof got.body - got.n < most - got.n ? sizeof got.body - got.n : most - got.n;
        ssize_t n = deltaprof_http_read(reply, got.body + got.n, room);
        if (n == -EAGAIN) {
            int64_t wait_ns = deltaprof_http_wait_ns(reply);
            usleep(wait_ns > 0 ? (useconds_t)(wait_ns / 1000) : 1);
            continue;
        }
        got.error = n;
        if (n <= 0)
            return n == 0;
        got.n += (size_t)n;
    }
    return false;
}

static inline void ask_with(const char *method, const char *target, const char *body)
{
    struct deltaprof_http_reply *reply = begin(method, target, body);
    head_of(reply);
    bool end = pull(reply, SIZE_MAX);
    deltaprof_http_end(reply, end);
}

static inline void ask(const char *target)
{
    ask_with("GET", target, NULL);
}

/* ---- events ---- */

static char blocks[4096][16];
static size_t n_blocks;

__attribute__((noinline, unused)) static void allocate(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        deltaprof_alloc(0, blocks[n_blocks++], 100);
}

/* A group's setup. */
static inline int starts(void **state)
{
    struct dp_config conf;
    struct dp_config_error error;
    dp_config_init(&conf);
    assert_int_equal(dp_config_parse(&conf, "heap_rate=1,symbolize=none", &error), 0);
    assert_int_equal(dp_record_init(&conf), 0);
    dp_record_tune(&conf, true);
    assert_int_equal(dp_report_init(&conf), 0);
    dp_http_endpoint_init(&conf);
    return 0;
}
