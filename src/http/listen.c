/* SPDX-License-Identifier: MIT */
/*
 * http/listen.c - one thread, its socket, and the library that speaks HTTP on it.
 *
 * The thread has a descriptor table of its own where the kernel allows it, emptied of the host's at once: a
 * socket that the host closes must not stay open in ours. Neither then can the host close or reuse what is ours. Where
 * it is not allowed the descriptors stand in the host's table; whenever the library stops with an error, the socket is
 * asked whether it is still itself before it is closed, and opened anew.
 *
 * It is stopped by a signal that only this thread sees: blocked, sent to the thread, and read through a signalfd; an
 * eventfd would have to stand in the host's table too.
 */
#include "http/listen.h"

#include "base/address.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/process.h"
#include "http/access.h"
#include "http/server.h"
#include "record/thread.h"
#include "report/profile.h"
#include "sink/agent.h"
#include "sink/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AFTER_NS        INT64_C(1000000000)
#define MAX_CONNECTIONS 64
#define REQUEST_S       10
#define REPLY_S         120
/* What a reader that dies may have left unread and yet counts as delivered: little, without after=. */
#define SEND_BUFFER_BYTES (32 << 10)
#define STACK_BYTES       (256u << 10)
#define STOP_SIGNAL       SIGURG

extern const struct dp_server_ops dp_module_http __attribute__((weak));

static struct dp_module module = {.name = "http"};
static struct {
    struct dp_config conf;
    bool loud;
    pthread_t thread;
    struct dp_lock life; /* start and stop, one at a time */
    _Atomic bool wanted, running, forbidden;
    _Atomic int64_t due_ns; /* when it may bind: a second after a start, a fork or a stop */
} endpoint;

static const struct dp_server_calls calls = {
    .admit = dp_access_check,
    .begin = deltaprof_http_begin,
    .wait_ns = deltaprof_http_wait_ns,
    .status = deltaprof_http_status,
    .header = deltaprof_http_header,
    .read = deltaprof_http_read,
    .end = deltaprof_http_end,
};

static int bind_to(int fd, struct dp_endpoint_address *address)
{
    if (address->any.sa_family == AF_UNIX) {
        struct stat was;
        /* A socket file that nobody answers is left over from a process that is gone. */
        if (!lstat(address->un.sun_path, &was) && S_ISSOCK(was.st_mode)) {
            int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
            bool dead = probe >= 0 && connect(probe, &address->any, address->n_bytes) && errno == ECONNREFUSED;
            if (probe >= 0)
                close(probe);
            if (dead)
                unlink(address->un.sun_path);
        }
        if (fchmod(fd, 0600) || bind(fd, &address->any, address->n_bytes))
            return -errno;
        return chmod(address->un.sun_path, 0600) ? -errno : 0;
    }
    int error = -EADDRINUSE;
    for (unsigned port = address->first_port; error == -EADDRINUSE && port <= address->last_port; port++) {
        dp_endpoint_address_set_port(address, (uint16_t)port);
        error = bind(fd, &address->any, address->n_bytes) || listen(fd, 64) ? -errno : 0;
    }
    return error;
}

/* A listening socket, or -errno. */
static int open_socket(struct dp_endpoint_address *address)
{
    int one = 1;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    int buffer_bytes = SEND_BUFFER_BYTES; /* connections inherit it */
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    int error = bind_to(fd, address);
    if (!error && listen(fd, 64))
        error = -errno;
    if (error) {
        close(fd);
        return error;
    }
    return fd;
}

static bool is_still(int fd, const struct stat *was)
{
    struct stat now;
    return !fstat(fd, &now) && now.st_dev == was->st_dev && now.st_ino == was->st_ino;
}

static void serve(const struct dp_server_ops *ops, int stop_fd)
{
    struct dp_endpoint_address address;
    if (dp_endpoint_address_parse(&address, endpoint.conf.listen))
        return;
    dp_access_init(endpoint.conf.token, address.local && address.any.sa_family != AF_UNIX);
    for (int tries = 0; tries < 8; tries++) {
        int fd = open_socket(&address);
        if (fd < 0) {
            errno = -fd;
            if (endpoint.loud)
                dp_log(DP_LOG_ERROR, "listen=%s, %m, profiles are not served", endpoint.conf.listen);
            return;
        }
        struct stat socket_is;
        if (fstat(fd, &socket_is))
            memset(&socket_is, 0, sizeof socket_is);
        if (address.any.sa_family == AF_UNIX)
            dp_log(DP_LOG_INFO, "profiles at %s, /debug/pprof/", endpoint.conf.listen);
        else
            dp_log(DP_LOG_INFO, "profiles at %s, port %u, /debug/pprof/", endpoint.conf.listen,
                   (unsigned)ntohs(address.in.sin_port));
        struct dp_server_conf conf = {
            .listen_fd = fd,
            .stop_fd = stop_fd,
            .max_connections = MAX_CONNECTIONS,
            .request_s = REQUEST_S,
            .reply_s = REPLY_S,
            .calls = &calls,
        };
        int error = ops->run(&conf);
        if (is_still(fd, &socket_is))
            close(fd);
        if (!error) {
            if (address.any.sa_family == AF_UNIX)
                unlink(address.un.sun_path);
            return;
        }
        if (address.any.sa_family != AF_UNIX)
            dp_endpoint_address_set_port(&address, address.first_port);
    }
    dp_log(DP_LOG_ERROR, "listen=%s, the program keeps closing the endpoint's descriptors, profiles are not served",
           endpoint.conf.listen);
}

/* Waits; who stops the whole process and lets it go on interrupts that. */
static bool is_stopped_by(const sigset_t *stop, int64_t deadline_ns)
{
    for (int64_t left_ns; (left_ns = deadline_ns - dp_clock_ns()) > 0;) {
        struct timespec left = {left_ns / 1000000000, left_ns % 1000000000};
        if (sigtimedwait(stop, NULL, &left) == STOP_SIGNAL)
            return true;
    }
    return false;
}

static void *run(void *unused)
{
    dp_thread_is_ours();
    pthread_setname_np(pthread_self(), "deltaprof-http");
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, STOP_SIGNAL);
    if (is_stopped_by(&stop, dp_load_relaxed(&endpoint.due_ns)))
        return unused;
    if (dp_log_own_table() == 0)
        dp_process_own_descriptors();
    int stop_fd = signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
    int high = fcntl(stop_fd, F_DUPFD_CLOEXEC, 512); /* above the host's numbers, if its table is ours too */
    if (high >= 0) {
        close(stop_fd);
        stop_fd = high;
    }
    const struct dp_server_ops *ops = dp_module_opened(&module);
    if (ops && stop_fd >= 0)
        serve(ops, stop_fd);
    if (stop_fd >= 0)
        close(stop_fd);
    return unused;
}

static bool is_missing(void)
{
    return dp_load_relaxed(&endpoint.wanted) && !dp_load_relaxed(&endpoint.forbidden) &&
           !dp_load_relaxed(&endpoint.running);
}

bool dp_listen_start(void)
{
    if (!is_missing() || !dp_lock_try(&endpoint.life))
        return false;
    bool makes = is_missing();
    if (makes) {
        dp_store_relaxed(&endpoint.running, true);
        int err = dp_spawn(&endpoint.thread, STACK_BYTES, run, NULL);
        if (err) {
            errno = -err;
            dp_log(DP_LOG_ERROR, "listen=%s, no thread, %m, profiles are not served", endpoint.conf.listen);
            dp_store_relaxed(&endpoint.wanted, false);
            dp_store_relaxed(&endpoint.running, false);
            makes = false;
        }
        dp_agent_keep_polling(false);
    }
    dp_lock_unlock(&endpoint.life);
    return makes;
}

static void due_in_a_second(void)
{
    dp_store_relaxed(&endpoint.due_ns, dp_clock_ns() + AFTER_NS);
    dp_agent_keep_polling(is_missing());
}

void dp_listen_init(const struct dp_config *conf, bool loud)
{
    if (&dp_module_http)
        module.builtin = &dp_module_http;
    if (!dp_module_open(&module)) {
        dp_log(DP_LOG_ERROR, "listen=%s, module http: %s, profiles are not served", conf->listen,
               dp_load_acquire(&module.error));
        return;
    }
    dp_report_load(conf); /* the thread makes this a process with threads, whose children may open nothing */
    endpoint.conf = *conf;
    endpoint.loud = loud;
    dp_store_relaxed(&endpoint.wanted, true);
    dp_store_relaxed(&endpoint.due_ns, dp_clock_ns() + AFTER_NS);
    dp_listen_start();
}

bool dp_listen_stop(void)
{
    if (!dp_load_relaxed(&endpoint.running) || !dp_lock_lock_until(&endpoint.life, INT64_MAX))
        return false;
    bool ran = dp_load_relaxed(&endpoint.running);
    if (ran) {
        pthread_kill(endpoint.thread, STOP_SIGNAL);
        pthread_join(endpoint.thread, NULL);
        dp_store_relaxed(&endpoint.running, false);
        due_in_a_second();
    }
    dp_lock_unlock(&endpoint.life);
    return ran;
}

void dp_listen_forbid(void)
{
    dp_store_relaxed(&endpoint.forbidden, true);
    dp_listen_stop();
}

void dp_listen_fork_child(void)
{
    dp_lock_reset(&endpoint.life);
    dp_store_relaxed(&endpoint.running, false);
    endpoint.loud = false;
    due_in_a_second();
}
