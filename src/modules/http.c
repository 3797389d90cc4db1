/* SPDX-License-Identifier: MIT */
/*
 * modules/http.c - libmicrohttpd driven from one thread of ours, by its epoll descriptor.
 *
 * The library's own threads are not used: they would have no guard and a descriptor table of the host's. A reply that
 * has nothing to give yet suspends its connection, and this loop resumes it when its time has come. Two limits are
 * ours, since the library counts silence only: a client may neither dribble its request nor its reading for ever; once
 * a second those beyond their time are shut down, which the library then sees as a closed connection.
 */
#include "http/server.h"

#include "base/atomic.h"
#include "base/clock.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BLOCK_BYTES  16384
#define UPLOAD_BYTES (1u << 20)

struct client {
    struct client *next, **at;
    struct MHD_Connection *connection;
    struct server *server;
    struct deltaprof_http_reply *reply;
    char *target; /* as it came, percent-encoded */
    char *upload;
    size_t n_upload, upload_cap;
    int64_t since_ns;  /* of the phase that it is in: sending a request, or reading a reply */
    int64_t resume_ns; /* suspended until; 0: not suspended */
    int reading, ended;
};

struct server {
    const struct dp_server_conf *conf;
    struct client *clients;
    int one_left; /* since the library last ran */
};

static enum MHD_Result answer_text(struct MHD_Connection *connection, int status, const char *message)
{
    char body[256];
    size_t n = strnlen(message, sizeof body - 2);
    memcpy(body, message, n);
    body[n++] = '\n';
    struct MHD_Response *response = MHD_create_response_from_buffer(n, body, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", "text/plain; charset=utf-8");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "X-Go-Pprof", "1");
    if (status == 503)
        MHD_add_response_header(response, "Retry-After", "1");
    if (status == 401)
        MHD_add_response_header(response, "WWW-Authenticate", "Basic realm=\"deltaprof\"");
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

static ssize_t read_body(void *ctx, uint64_t position, char *buf, size_t n_bytes)
{
    struct client *c = ctx;
    const struct dp_server_calls *calls = c->server->conf->calls;
    (void)position;
    ssize_t n = calls->read(c->reply, buf, n_bytes);
    if (n == -EAGAIN) {
        int64_t wait_ns = calls->wait_ns(c->reply);
        c->resume_ns = dp_clock_ns() + (wait_ns > 0 ? wait_ns : 1);
        MHD_suspend_connection(c->connection);
        return 0;
    }
    if (n > 0) {
        if (!c->reading) {
            c->reading = 1;
            c->since_ns = dp_clock_ns();
        }
        return n;
    }
    c->ended = n == 0;
    return n == 0 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static enum MHD_Result answer_reply(struct client *c)
{
    const struct dp_server_calls *calls = c->server->conf->calls;
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_body, c, NULL);
    if (!response)
        return MHD_NO;
    const char *name, *value;
    for (size_t i = 0; !calls->header(c->reply, i, &name, &value); i++)
        MHD_add_response_header(response, name, value);
    enum MHD_Result result = MHD_queue_response(c->connection, (unsigned)calls->status(c->reply), response);
    MHD_destroy_response(response);
    return result;
}

static int keep_upload(struct client *c, const char *data, size_t n_bytes)
{
    if (c->n_upload > UPLOAD_BYTES)
        return 0; /* too long already, and answered so: the rest need not be kept */
    if (c->n_upload + n_bytes > c->upload_cap) {
        size_t cap = (c->n_upload + n_bytes) * 2;
        char *grown = realloc(c->upload, cap);
        if (!grown)
            return -ENOMEM;
        c->upload = grown;
        c->upload_cap = cap;
    }
    memcpy(c->upload + c->n_upload, data, n_bytes);
    c->n_upload += n_bytes;
    return 0;
}

static struct client *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* The library cuts the query off and decodes; the endpoint wants the target as it came. */
static void *take_target(void *ctx, const char *uri, struct MHD_Connection *connection)
{
    struct client *c = client_of(connection);
    (void)ctx;
    if (c) {
        free(c->target);
        c->target = strdup(uri);
    }
    return NULL;
}

static const char *header_of(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result handle(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *n_upload, void **request)
{
    struct server *server = ctx;
    const struct dp_server_calls *calls = server->conf->calls;
    struct client *c = client_of(connection);
    (void)url;
    (void)version;
    if (!c)
        return MHD_NO;
    if (!*request) { /* headers are complete */
        *request = c;
        c->n_upload = 0;
        const char *message = "";
        struct dp_access_headers headers = {
            .host = header_of(connection, "Host"),
            .authorization = header_of(connection, "Authorization"),
            .origin = header_of(connection, "Origin"),
            .fetch_site = header_of(connection, "Sec-Fetch-Site"),
        };
        int status = calls->admit(&headers, &message);
        return status == 200 ? MHD_YES : answer_text(connection, status, message);
    }
    if (*n_upload) {
        int error = keep_upload(c, upload, *n_upload);
        *n_upload = 0;
        return error ? MHD_NO : MHD_YES;
    }
    struct deltaprof_http_request asked = {
        .method = method, .target = c->target ? c->target : "", .body = c->upload, .n_body_bytes = c->n_upload};
    if (calls->begin(&asked, &c->reply))
        return answer_text(connection, 503, "no memory for a reply");
    return answer_reply(c);
}

static void complete(void *ctx, struct MHD_Connection *connection, void **request, enum MHD_RequestTerminationCode how)
{
    struct server *server = ctx;
    struct client *c = client_of(connection);
    (void)request;
    if (!c || !c->reply)
        return;
    server->conf->calls->end(c->reply, how == MHD_REQUEST_TERMINATED_COMPLETED_OK && c->ended);
    c->reply = NULL;
    c->reading = c->ended = 0;
    c->resume_ns = 0;
    c->since_ns = dp_clock_ns(); /* the next request's time begins */
}

static void notice(void *ctx, struct MHD_Connection *connection, void **socket_context,
                   enum MHD_ConnectionNotificationCode what)
{
    struct server *server = ctx;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        struct client *c = calloc(1, sizeof *c);
        if (!c)
            return; /* its requests find no client and are closed */
        c->connection = connection;
        c->server = server;
        c->since_ns = dp_clock_ns();
        c->at = &server->clients;
        c->next = server->clients;
        if (c->next)
            c->next->at = &c->next;
        server->clients = c;
        *socket_context = c;
    } else if (*socket_context) {
        struct client *c = *socket_context;
        *c->at = c->next;
        if (c->next)
            c->next->at = c->at;
        free(c->target);
        free(c->upload);
        free(c);
        *socket_context = NULL;
        server->one_left = 1;
    }
}

static void shut(struct client *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info)
        shutdown(info->connect_fd, SHUT_RDWR);
}

/* Resumes who has waited long enough and shuts down who has taken too long. When to look again, in ns from now. */
static int64_t sweep(struct server *server)
{
    int64_t now = dp_clock_ns(), next = INT64_MAX;
    for (struct client *c = server->clients; c; c = c->next) {
        if (c->resume_ns) {
            if (c->resume_ns <= now) {
                c->resume_ns = 0;
                MHD_resume_connection(c->connection);
                next = 0;
            } else if (c->resume_ns - now < next) {
                next = c->resume_ns - now;
            }
            continue;
        }
        int64_t limit_ns = c->reading ? server->conf->reply_s : c->reply ? 0 : server->conf->request_s;
        if (!limit_ns)
            continue;
        int64_t left = c->since_ns + limit_ns * 1000000000 - now;
        if (left <= 0) {
            shut(c);
            left = 1000000000;
        }
        if (left < next)
            next = left;
    }
    return next;
}

/* ---- the library fails -------------------------------------------------------------------------------------------
 *
 * The library calls this when it finds its own state broken, and must not be returned to: by default it ends the
 * process. Our thread leaves it by a long jump and never calls it again for this daemon. The function stands for the
 * whole process, so a server of the host's gets what the library would have done. */

static struct {
    pthread_t thread;
    _Atomic bool serves;
    jmp_buf out;
} ours;

static void library_fails(void *ctx, const char *file, unsigned line, const char *reason)
{
    (void)ctx;
    if (dp_load_relaxed(&ours.serves) && pthread_equal(pthread_self(), ours.thread))
        longjmp(ours.out, 1);
    fprintf(stderr, "Fatal error in GNU libmicrohttpd %s:%u: %s\n", file, line, reason ? reason : "");
    abort();
}

/* Gives up every reply. Clients and daemon stay as they are: the library's lists still hold them. */
static int abandon(struct server *server)
{
    for (struct client *c = server->clients; c; c = c->next)
        if (c->reply)
            server->conf->calls->end(c->reply, 0);
    server->clients = NULL;
    return -ENOTRECOVERABLE;
}

static int serve(struct server *server)
{
    const struct dp_server_conf *conf = server->conf;
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, server,
                         MHD_OPTION_LISTEN_SOCKET, conf->listen_fd, MHD_OPTION_CONNECTION_LIMIT, conf->max_connections,
                         MHD_OPTION_CONNECTION_TIMEOUT, conf->request_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)32768, MHD_OPTION_URI_LOG_CALLBACK, take_target, NULL, MHD_OPTION_NOTIFY_CONNECTION,
                         notice, server, MHD_OPTION_NOTIFY_COMPLETED, complete, server, MHD_OPTION_END);
    if (!daemon)
        return -EIO;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    int error = info ? 0 : -EIO;
    while (!error) {
        int64_t wait_ns = sweep(server);
        MHD_UNSIGNED_LONG_LONG wait_ms;
        if (MHD_get_timeout(daemon, &wait_ms) == MHD_YES && (int64_t)wait_ms * 1000000 < wait_ns)
            wait_ns = (int64_t)wait_ms * 1000000;
        if (server->one_left) /* at its limit the library stops to accept, and takes that up again when it runs next */
            wait_ns = 0;
        server->one_left = 0;
        struct pollfd fds[2] = {{.fd = info->epoll_fd, .events = POLLIN}, {.fd = conf->stop_fd, .events = POLLIN}};
        struct timespec wait = {wait_ns / 1000000000, wait_ns % 1000000000};
        int n = ppoll(fds, 2, wait_ns == INT64_MAX ? NULL : &wait, NULL);
        if (n < 0 && errno != EINTR)
            error = -errno;
        else if (n > 0 && fds[0].revents & POLLNVAL)
            error = -EBADF;
        if (n > 0 && fds[1].revents)
            break;
        if (!error && MHD_run(daemon) != MHD_YES)
            error = -EIO;
    }
    /* A suspended connection may not be there when the library stops. */
    for (struct client *c = server->clients; c; c = c->next) {
        if (c->resume_ns) {
            c->resume_ns = 0;
            MHD_resume_connection(c->connection);
        }
    }
    MHD_quiesce_daemon(daemon); /* keeps listen_fd open */
    MHD_stop_daemon(daemon);
    return error;
}

static int run(const struct dp_server_conf *conf)
{
    static struct server server; /* one at a time; a long jump leaves it whole */
    server = (struct server){.conf = conf};
    ours.thread = pthread_self();
    if (conf->library_is_ours)
        MHD_set_panic_func(library_fails, NULL);
    dp_store_relaxed(&ours.serves, true);
    int err = setjmp(ours.out) ? abandon(&server) : serve(&server);
    dp_store_relaxed(&ours.serves, false);
    return err;
}

__attribute__((visibility("default"))) const struct dp_server_ops dp_module_http = {
    .base = {.abi = DP_MODULE_ABI, .file = "libmicrohttpd", .probe = MHD_start_daemon},
    .run = run,
};
