/* SPDX-License-Identifier: MIT */
/*
 * endpoint/server.h - interface of the http module: an outside HTTP server on a socket of the profiler. The server
 * calls the profiler through a table of functions, so that the module needs no symbol of the library.
 */
#pragma once

#include "base/module.h"
#include "endpoint/access.h"

#include <deltaprof/http.h>

struct dp_http_server_calls {
    /* Returns 200, or the status of a refusal with *message: one line for the reply. */
    int (*admit)(const struct dp_http_access_headers *, const char **message);
    int (*begin)(const struct deltaprof_http_request *, struct deltaprof_http_reply **);
    int64_t (*wait_ns)(struct deltaprof_http_reply *);
    int (*status)(const struct deltaprof_http_reply *);
    int (*header)(const struct deltaprof_http_reply *, size_t i, const char **name, const char **value);
    ssize_t (*read)(struct deltaprof_http_reply *, void *buf, size_t n_bytes);
    void (*end)(struct deltaprof_http_reply *, int delivered);
    void *(*remap)(void *p, size_t old_bytes, size_t new_bytes); /* memory counted against `memory`; p may be NULL */
    void (*unmap)(void *p, size_t n_bytes);
};

struct dp_http_server_conf {
    int listen_fd; /* listening, non-blocking; the caller keeps owning it */
    int stop_fd;   /* when readable, run returns */
    unsigned max_connections;
    unsigned request_s;   /* longest time for a client to send a request, idle time included */
    unsigned reply_s;     /* longest time for a client to read a reply, from its first byte on */
    bool library_is_ours; /* no other code in the process uses the HTTP library */
    const struct dp_http_server_calls *calls;
};

struct dp_http_server_ops {
    struct dp_module_ops base;
    /*
     * Serves in the calling thread until stop_fd is readable. Returns 0, or -errno: the library failed, and may have
     * left descriptors and memory behind. The descriptors are closed with the thread's table.
     */
    int (*run)(const struct dp_http_server_conf *);
};
