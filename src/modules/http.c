/* SPDX-License-Identifier: MIT */
/*
 * modules/http.c - the http module: runs libmicrohttpd in the calling thread, through its epoll descriptor.
 *
 * The library's own threads are not used: they would not be guarded, and would use the host's descriptor table. If a
 * reply has no bytes yet, its connection is suspended, and this loop resumes it later. The library limits only the time
 * without any byte, so this file adds two limits: for the whole time to send a request, and to read a reply. Once a
 * second, connections beyond a limit are shut down; the library then sees a closed connection. A client that closes its
 * sending side while it waits for a window counts as gone, as in Go's server: its reply is dropped.
 *
 * Times are those of the coarse clock. The exact one depends on a variable of the core, which a module cannot name.
 */
#include "endpoint/server.h"

#include "base/clock.h"
#include "modules/http_survive.h"
#include "modules/http_upload.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BLOCK_BYTES 16384
#define WATCH_NS    100000000 /* a client that waits longer is checked for leaving */
#define CLIENTS_MAX 64

struct client {
    struct client *next, **at;
    struct MHD_Connection *connection;
    struct server *server;
    struct deltaprof_http_reply *reply;
    char *target; /* as received, percent-encoded */
    struct dp_http_upload upload;
    int64_t since_ns;  /* start of its phase: sending a request, or reading a reply */
    int64_t resume_ns; /* suspended until; 0: not suspended */
    int reading, ended;
    int watched, gone; /* gone: closed its side while it waited */
};

struct server {
    const struct dp_http_server_conf *conf;
    struct client *clients;
    struct dp_http_uploads uploads;
    int one_left; /* a client left since the library last ran */
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

static void suspend(struct client *c, int64_t wait_ns)
{
    c->resume_ns = dp_clock_coarse_ns() + (wait_ns > 0 ? wait_ns : 1);
    c->watched = wait_ns >= WATCH_NS;
    MHD_suspend_connection(c->connection);
}

static ssize_t read_body(void *ctx, uint64_t position, char *buf, size_t n_bytes)
{
    struct client *c = ctx;
    const struct dp_http_server_calls *calls = c->server->conf->calls;
    (void)position;
    ssize_t n = calls->read(c->reply, buf, n_bytes);
    if (n == -EAGAIN) {
        suspend(c, calls->wait_ns(c->reply));
        return 0;
    }
    if (n > 0) {
        if (!c->reading) {
            c->reading = 1;
            c->since_ns = dp_clock_coarse_ns();
        }
        return n;
    }
    c->ended = n == 0;
    return n == 0 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

/* The library asks for the answer again when the connection is resumed. */
static enum MHD_Result answer_reply(struct client *c)
{
    const struct dp_http_server_calls *calls = c->server->conf->calls;
    if (c->gone)
        return MHD_NO;
    int64_t wait_ns = calls->wait_ns(c->reply);
    if (wait_ns > 0) {
        suspend(c, wait_ns);
        return MHD_YES;
    }
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

static struct client *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* Keeps the target as received: the library cuts the query off and decodes, but the endpoint needs it whole. */
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
    const struct dp_http_server_calls *calls = server->conf->calls;
    struct client *c = client_of(connection);
    (void)url;
    (void)version;
    if (!c)
        return MHD_NO;
    if (!*request) { /* the headers are complete */
        *request = c;
        dp_http_upload_drop(&c->server->uploads, &c->upload);
        const char *message = "";
        struct dp_http_access_headers headers = {
            .host = header_of(connection, "Host"),
            .authorization = header_of(connection, "Authorization"),
            .origin = header_of(connection, "Origin"),
            .fetch_site = header_of(connection, "Sec-Fetch-Site"),
        };
        int status = calls->admit(&headers, &message);
        if (status == 200)
            status = dp_http_upload_announce(&server->uploads, &c->upload, header_of(connection, "Content-Length"),
                                             header_of(connection, "Transfer-Encoding") != NULL, &message);
        return status == 200 ? MHD_YES : answer_text(connection, status, message);
    }
    if (*n_upload) {
        int err = dp_http_upload_add(&server->uploads, &c->upload, upload, *n_upload);
        *n_upload = 0;
        return err ? MHD_NO : MHD_YES;
    }
    if (c->reply)
        return answer_reply(c);
    if (c->upload.too_long)
        return answer_text(connection, 413, "more than 1 MiB of addresses");
    struct deltaprof_http_request asked = {
        .method = method, .target = c->target ? c->target : "", .body = c->upload.bytes, .n_body_bytes = c->upload.n};
    if (calls->begin(&asked, &c->reply))
        return answer_text(connection, 503, "no memory for a reply");
    dp_http_upload_drop(&c->server->uploads, &c->upload);
    return answer_reply(c);
}

static void complete(void *ctx, struct MHD_Connection *connection, void **request, enum MHD_RequestTerminationCode how)
{
    struct server *server = ctx;
    struct client *c = client_of(connection);
    (void)request;
    if (!c)
        return;
    dp_http_upload_drop(&c->server->uploads, &c->upload);
    if (!c->reply)
        return;
    server->conf->calls->end(c->reply, how == MHD_REQUEST_TERMINATED_COMPLETED_OK && c->ended);
    c->reply = NULL;
    c->reading = c->ended = 0;
    c->resume_ns = 0;
    c->since_ns = dp_clock_coarse_ns(); /* the next request's time begins */
}

static void notice(void *ctx, struct MHD_Connection *connection, void **socket_context,
                   enum MHD_ConnectionNotificationCode what)
{
    struct server *server = ctx;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        struct client *c = calloc(1, sizeof *c);
        if (!c)
            return; /* its requests have no client and are closed */
        c->connection = connection;
        c->server = server;
        c->since_ns = dp_clock_coarse_ns();
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
        dp_http_upload_drop(&c->server->uploads, &c->upload);
        free(c);
        *socket_context = NULL;
        server->one_left = 1;
    }
}

static int socket_of(const struct client *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

/* Checks whether clients of suspended connections have closed them; the library does not look at those. */
static nfds_t watch(const struct server *server, struct pollfd *fds, struct client **watched)
{
    nfds_t n = 0;
    for (struct client *c = server->clients; c && n < CLIENTS_MAX; c = c->next) {
        if (!c->resume_ns || !c->watched || c->gone)
            continue;
        fds[n] = (struct pollfd){.fd = socket_of(c), .events = POLLRDHUP};
        watched[n++] = c;
    }
    return n;
}

/*
 * Resumes connections whose time has come, and shuts down those beyond a limit. Returns when to call it again, in ns
 * from now.
 */
static int64_t sweep(struct server *server)
{
    int64_t now = dp_clock_coarse_ns(), next = INT64_MAX;
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
            shutdown(socket_of(c), SHUT_RDWR);
            left = 1000000000;
        }
        if (left < next)
            next = left;
    }
    return next;
}

static int serve(void *arg)
{
    struct server *server = arg;
    const struct dp_http_server_conf *conf = server->conf;
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, server,
                         MHD_OPTION_LISTEN_SOCKET, conf->listen_fd, MHD_OPTION_CONNECTION_LIMIT, conf->max_connections,
                         MHD_OPTION_CONNECTION_TIMEOUT, conf->request_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)32768, MHD_OPTION_URI_LOG_CALLBACK, take_target, NULL, MHD_OPTION_NOTIFY_CONNECTION,
                         notice, server, MHD_OPTION_NOTIFY_COMPLETED, complete, server, MHD_OPTION_END);
    if (!daemon)
        return -EIO;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    int err = info ? 0 : -EIO;
    while (!err) {
        int64_t wait_ns = sweep(server);
        MHD_UNSIGNED_LONG_LONG wait_ms;
        if (MHD_get_timeout(daemon, &wait_ms) == MHD_YES && (int64_t)wait_ms * 1000000 < wait_ns)
            wait_ns = (int64_t)wait_ms * 1000000;
        if (server->one_left) /* at its limit the library stops accepting; it accepts again when it runs next */
            wait_ns = 0;
        server->one_left = 0;
        struct pollfd fds[2 + CLIENTS_MAX] = {{.fd = info->epoll_fd, .events = POLLIN},
                                              {.fd = conf->stop_fd, .events = POLLIN}};
        struct client *watched[CLIENTS_MAX];
        nfds_t n_watched = watch(server, fds + 2, watched);
        struct timespec wait = {wait_ns / 1000000000, wait_ns % 1000000000};
        int n = ppoll(fds, 2 + n_watched, wait_ns == INT64_MAX ? NULL : &wait, NULL);
        for (nfds_t i = 0; n > 0 && i < n_watched; i++)
            if (fds[2 + i].revents)
                watched[i]->gone = watched[i]->resume_ns = 1; /* 1: a time long ago */
        if (n < 0 && errno != EINTR)
            err = -errno;
        else if (n > 0 && fds[0].revents & POLLNVAL)
            err = -EBADF;
        if (n > 0 && fds[1].revents)
            break;
        if (!err && MHD_run(daemon) != MHD_YES)
            err = -EIO;
    }
    /* No connection may be suspended when the library stops. */
    for (struct client *c = server->clients; c; c = c->next) {
        if (c->resume_ns) {
            c->resume_ns = 0;
            MHD_resume_connection(c->connection);
        }
    }
    MHD_quiesce_daemon(daemon); /* keeps listen_fd open */
    MHD_stop_daemon(daemon);
    return err;
}

static int run(const struct dp_http_server_conf *conf)
{
    static struct server server; /* one server at a time; static, so that it survives a long jump */
    server = (struct server){.conf = conf, .uploads.calls = conf->calls};
    int err = dp_http_survive(serve, &server, conf->library_is_ours);
    if (err == -ENOTRECOVERABLE) /* clients and daemon are not freed: the library's lists still refer to them */
        for (struct client *c = server.clients; c; c = c->next)
            conf->calls->end(c->reply, 0);
    return err;
}

__attribute__((visibility("default"))) const struct dp_http_server_ops dp_module_http = {
    .base = {.abi = DP_MODULE_ABI, .file = "libmicrohttpd", .probe = MHD_start_daemon},
    .run = run,
};
