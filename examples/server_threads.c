/* SPDX-License-Identifier: MIT */
/*
 * server_threads.c - a server with a thread for each connection (libmicrohttpd) that also serves the profiler's
 * endpoint. All requests below /debug/pprof/ go to deltaprof. A thread may wait here, so it blocks until bytes are
 * ready.
 *
 *     server_threads PORT        then: go tool pprof -top http://127.0.0.1:PORT/debug/pprof/delta_heap
 *
 * GET /work?n=N fills a small cache under a lock. GET / replies with hello.
 */
#include <deltaprof/deltaprof.h>
#include <deltaprof/http.h>

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CACHE_ENTRIES 1024

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static char *cache[CACHE_ENTRIES];

__attribute__((noinline)) static char *render_page(unsigned long i)
{
    char *page = malloc(8192);
    if (page)
        snprintf(page, 8192, "page %lu", i);
    return page;
}

__attribute__((noinline)) static void store_page(unsigned long i, char *page)
{
    pthread_mutex_lock(&cache_lock);
    free(cache[i % CACHE_ENTRIES]);
    cache[i % CACHE_ENTRIES] = page;
    pthread_mutex_unlock(&cache_lock);
}

static enum MHD_Result answer_text(struct MHD_Connection *connection, const char *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- the profiler: the connection's thread reads the reply ---- */

static ssize_t read_profile(void *ctx, uint64_t position, char *buf, size_t n_bytes)
{
    struct deltaprof_http_reply *reply = ctx;
    (void)position;
    for (;;) {
        ssize_t n = deltaprof_http_read(reply, buf, n_bytes);
        if (n > 0)
            return n;
        if (n == 0)
            return MHD_CONTENT_READER_END_OF_STREAM;
        int64_t wait_ns = deltaprof_http_wait_ns(reply);
        if (n != -EAGAIN)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        struct timespec pause = {wait_ns / 1000000000, wait_ns % 1000000000};
        nanosleep(&pause, NULL);
    }
}

static enum MHD_Result answer_profile(struct MHD_Connection *connection, struct deltaprof_http_reply *reply)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_profile, reply, NULL);
    const char *name, *value;
    for (size_t i = 0; !deltaprof_http_header(reply, i, &name, &value); i++)
        MHD_add_response_header(response, name, value);
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)deltaprof_http_status(reply), response);
    MHD_destroy_response(response);
    return result;
}

/* ---- the server ---- */

struct request {
    char *target;
    char body[65536]; /* of POST /debug/pprof/symbol */
    size_t n_body;
    int begun;
    struct deltaprof_http_reply *reply;
};

static void *take_target(void *ctx, const char *target, struct MHD_Connection *connection)
{
    struct request *request = calloc(1, sizeof *request);
    (void)ctx;
    (void)connection;
    if (request)
        request->target = strdup(target);
    return request;
}

static enum MHD_Result handle(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *n_upload, void **state)
{
    struct request *request = *state;
    (void)ctx;
    (void)version;
    if (!request || !request->target)
        return MHD_NO;
    if (!request->begun) {
        request->begun = 1;
        return MHD_YES;
    }
    if (*n_upload) {
        if (request->n_body + *n_upload > sizeof request->body)
            return MHD_NO;
        memcpy(request->body + request->n_body, upload, *n_upload);
        request->n_body += *n_upload;
        *n_upload = 0;
        return MHD_YES;
    }
    if (!strncmp(url, "/debug/pprof", 12)) {
        struct deltaprof_http_request asked = {
            .method = method, .target = request->target, .body = request->body, .n_body_bytes = request->n_body};
        if (deltaprof_http_begin(&asked, &request->reply))
            return MHD_NO;
        return answer_profile(connection, request->reply);
    }
    if (!strcmp(url, "/work")) {
        const char *n = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "n");
        unsigned long count = n ? strtoul(n, NULL, 10) : 1;
        for (unsigned long i = 0; i < count; i++)
            store_page(i, render_page(i));
        return answer_text(connection, "done\n");
    }
    return answer_text(connection, "hello\n");
}

static void complete(void *ctx, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode how)
{
    struct request *request = *state;
    (void)ctx;
    (void)connection;
    if (!request)
        return;
    /* The cursor moves only if the whole reply was sent. */
    deltaprof_http_end(request->reply, how == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    free(request->target);
    free(request);
}

int main(int argc, char **argv)
{
    unsigned port = argc > 1 ? (unsigned)atoi(argv[1]) : 8080;
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);

    int err = deltaprof_start("heap_rate=64k");
    if (err) {
        fprintf(stderr, "deltaprof_start: %s\n", strerror(-err));
        return 1;
    }
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD, (uint16_t)port, NULL, NULL, handle, NULL,
        MHD_OPTION_URI_LOG_CALLBACK, take_target, NULL, MHD_OPTION_NOTIFY_COMPLETED, complete, NULL, MHD_OPTION_END);
    if (!daemon) {
        fprintf(stderr, "cannot listen on port %u\n", port);
        return 1;
    }
    printf("listening on port %u\n", port);
    fflush(stdout);
    int signal;
    sigwait(&ends, &signal);
    MHD_stop_daemon(daemon);
    return 0;
}
