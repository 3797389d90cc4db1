/* SPDX-License-Identifier: MIT */
/*
 * server_evhttp.c - a server with one event loop (libevent's evhttp) that also serves the profiler's endpoint.
 * The loop never waits for a profile: it reads the bytes that are ready, and sets a timer if there are none.
 *
 *     server_evhttp PORT        then: go tool pprof -top http://127.0.0.1:PORT/debug/pprof/delta_heap
 *
 * GET /work?n=N fills a cache. GET /tree?depth=N builds a binary tree; each of its nodes has a different stack. GET
 * /ping replies at once.
 */
#include <deltaprof/deltaprof.h>
#include <deltaprof/http.h>

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_ENTRIES 4096

static struct event_base *loop;
static char *cache[CACHE_ENTRIES];

__attribute__((noinline)) static void fill_cache(unsigned long n)
{
    static unsigned long at;
    for (unsigned long i = 0; i < n; i++, at++) {
        free(cache[at % CACHE_ENTRIES]);
        cache[at % CACHE_ENTRIES] = malloc(512 + at % 4096);
    }
}

static void work(struct evhttp_request *request, void *ctx)
{
    struct evkeyvalq query;
    (void)ctx;
    evhttp_parse_query(evhttp_request_get_uri(request), &query);
    const char *n = evhttp_find_header(&query, "n");
    fill_cache(n ? strtoul(n, NULL, 10) : 1);
    evhttp_clear_headers(&query);
    evhttp_send_reply(request, 200, "OK", NULL);
}

struct node {
    struct node *left, *right;
};

static struct node *grow_left(unsigned long depth);

__attribute__((noinline)) static struct node *grow_right(unsigned long depth)
{
    struct node *node = malloc(sizeof *node);
    if (node) {
        node->left = depth ? grow_left(depth - 1) : NULL;
        node->right = depth ? grow_right(depth - 1) : NULL;
    }
    return node;
}

__attribute__((noinline)) static struct node *grow_left(unsigned long depth)
{
    struct node *node = malloc(sizeof *node);
    if (node) {
        node->left = depth ? grow_left(depth - 1) : NULL;
        node->right = depth ? grow_right(depth - 1) : NULL;
    }
    return node;
}

static void cut_down(struct node *node)
{
    if (!node)
        return;
    cut_down(node->left);
    cut_down(node->right);
    free(node);
}

static void tree(struct evhttp_request *request, void *ctx)
{
    static struct node *root;
    struct evkeyvalq query;
    (void)ctx;
    evhttp_parse_query(evhttp_request_get_uri(request), &query);
    const char *depth = evhttp_find_header(&query, "depth");
    cut_down(root);
    root = grow_left(depth ? strtoul(depth, NULL, 10) % 20 : 1);
    evhttp_clear_headers(&query);
    evhttp_send_reply(request, 200, "OK", NULL);
}

static void ping(struct evhttp_request *request, void *ctx)
{
    (void)ctx;
    evhttp_send_reply(request, 200, "OK", NULL);
}

/* ---- the profiler: sends one piece at a time, the next one when the last was sent ---- */

struct exchange {
    struct evhttp_request *request;
    struct deltaprof_http_reply *reply;
    struct event *timer;
};

static void finish(struct exchange *x, int delivered)
{
    deltaprof_http_end(x->reply, delivered);
    event_free(x->timer);
    free(x);
}

static void more(struct evhttp_connection *connection, void *ctx);

static void pump(struct exchange *x)
{
    char buf[16384];
    int64_t wait_ns = deltaprof_http_wait_ns(x->reply);
    ssize_t n = wait_ns > 0 ? -EAGAIN : deltaprof_http_read(x->reply, buf, sizeof buf);
    if (n > 0) {
        struct evbuffer *piece = evbuffer_new();
        evbuffer_add(piece, buf, (size_t)n);
        evhttp_send_reply_chunk_with_cb(x->request, piece, more, x);
        evbuffer_free(piece);
    } else if (n == -EAGAIN) {
        struct timeval pause = {wait_ns / 1000000000, wait_ns % 1000000000 / 1000};
        event_add(x->timer, &pause);
    } else if (n == 0) {
        evhttp_connection_set_closecb(evhttp_request_get_connection(x->request), NULL, NULL);
        evhttp_send_reply_end(x->request);
        finish(x, 1);
    } else {
        struct evhttp_connection *connection = evhttp_request_get_connection(x->request);
        evhttp_connection_set_closecb(connection, NULL, NULL);
        finish(x, 0);
        evhttp_connection_free(connection); /* without the last chunk, the client sees that the reply is incomplete */
    }
}

static void more(struct evhttp_connection *connection, void *ctx)
{
    (void)connection;
    pump(ctx);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    pump(ctx);
}

static void on_close(struct evhttp_connection *connection, void *ctx)
{
    (void)connection;
    finish(ctx, 0);
}

static const char *method_of(struct evhttp_request *request)
{
    switch (evhttp_request_get_command(request)) {
    case EVHTTP_REQ_GET:
        return "GET";
    case EVHTTP_REQ_HEAD:
        return "HEAD";
    case EVHTTP_REQ_POST:
        return "POST";
    default:
        return "OTHER";
    }
}

static void profile(struct evhttp_request *request)
{
    struct evbuffer *input = evhttp_request_get_input_buffer(request);
    struct deltaprof_http_request asked = {
        .method = method_of(request),
        .target = evhttp_request_get_uri(request),
        .body = evbuffer_pullup(input, -1),
        .n_body_bytes = evbuffer_get_length(input),
    };
    struct exchange *x = calloc(1, sizeof *x);
    if (!x || deltaprof_http_begin(&asked, &x->reply)) {
        free(x);
        evhttp_send_error(request, 503, NULL);
        return;
    }
    x->request = request;
    x->timer = evtimer_new(loop, on_timer, x);
    const char *name, *value;
    for (size_t i = 0; !deltaprof_http_header(x->reply, i, &name, &value); i++)
        evhttp_add_header(evhttp_request_get_output_headers(request), name, value);
    evhttp_connection_set_closecb(evhttp_request_get_connection(request), on_close, x);
    evhttp_send_reply_start(request, deltaprof_http_status(x->reply), NULL);
    pump(x);
}

static void route(struct evhttp_request *request, void *ctx)
{
    (void)ctx;
    if (!strncmp(evhttp_request_get_uri(request), "/debug/pprof", 12))
        profile(request);
    else
        evhttp_send_error(request, 404, NULL);
}

static void stop(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    (void)ctx;
    event_base_loopbreak(loop);
}

int main(int argc, char **argv)
{
    unsigned port = argc > 1 ? (unsigned)atoi(argv[1]) : 8080;
    signal(SIGPIPE, SIG_IGN);
    int err = deltaprof_start("heap_rate=64k");
    if (err) {
        fprintf(stderr, "deltaprof_start: %s\n", strerror(-err));
        return 1;
    }
    loop = event_base_new();
    struct evhttp *http = evhttp_new(loop);
    evhttp_set_allowed_methods(http,
                               EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST | EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE);
    evhttp_set_cb(http, "/work", work, NULL);
    evhttp_set_cb(http, "/tree", tree, NULL);
    evhttp_set_cb(http, "/ping", ping, NULL);
    evhttp_set_gencb(http, route, NULL);
    if (evhttp_bind_socket(http, "127.0.0.1", (uint16_t)port)) {
        fprintf(stderr, "cannot listen on port %u\n", port);
        return 1;
    }
    struct event *term = evsignal_new(loop, SIGTERM, stop, NULL), *intr = evsignal_new(loop, SIGINT, stop, NULL);
    evsignal_add(term, NULL);
    evsignal_add(intr, NULL);
    printf("listening on port %u\n", port);
    fflush(stdout);
    event_base_dispatch(loop);
    event_free(term);
    event_free(intr);
    evhttp_free(http);
    event_base_free(loop);
    return 0;
}
