/* SPDX-License-Identifier: MIT */
/*
 * host/http/listen.c - runs the HTTP server of `listen` in two threads: one serves; the other starts and stops it and
 * writes its log lines.
 *
 * The serving thread has a separate, empty descriptor table. So a socket that the host closes does not stay open here,
 * the host can neither close nor reuse a descriptor of the endpoint, and the host's descriptor numbers are the same as
 * without the profiler. If the kernel does not allow such a table, nothing is served. The host's fd 2, and the
 * descriptors of its log callback, are in the host's table only: so the second thread keeps that table, opens nothing,
 * and writes the lines that the first one passes on (base/relay.h).
 *
 * Stopping closes the relay. The second thread then sends the first one a signal that is blocked everywhere and read
 * through a signalfd, and joins it. A signal sent to the whole process can be read there too, so the state of the relay
 * decides.
 *
 * If main leaves by pthread_exit, the process goes on, and so does the endpoint. From then on the second thread looks
 * often whether only threads of the profiler are left (host/agent/alone.h), and stops the endpoint if so.
 */
#include "host/http/listen.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/relay.h"
#include "config/address.h"
#include "endpoint/access.h"
#include "endpoint/server.h"
#include "endpoint/socket.h"
#include "host/http/wrapper.h"
#include "host/report/profile.h"
#include "host/report/settings.h"
#include "host/agent/agent.h"
#include "host/agent/alone.h"
#include "host/agent/signals.h"
#include "host/agent/spawn.h"
#include "host/thread/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AFTER_NS        INT64_C(1000000000)
#define LOOK_NS         INT64_C(100000000)
#define MAX_CONNECTIONS 64
#define REQUEST_S       10
#define REPLY_S         120
#define STACK_BYTES     (256u << 10)
#define STOP_SIGNAL     SIGURG

extern const struct dp_http_server_ops dp_module_http __attribute__((weak));

static struct dp_module module = {.name = "http"};
/* Where to listen, and the token's file. Apart from `endpoint`, which each forked child writes, so that all small
 * variables lie in few pages. */
static DP_LARGE struct {
    char listen[DP_CONFIG_TEXT], token[DP_CONFIG_TEXT];
} texts;
static struct {
    bool forked, library_is_ours;
    bool has_failed;    /* this process, or an ancestor, logged that the address is not served */
    bool every_program; /* exe= names none */
    pthread_t thread;
    struct dp_lock life; /* start and stop, one at a time */
    _Atomic bool wanted, running, forbidden;
    _Atomic uint32_t ended;  /* a futex: the thread of `running` is at its end, and can be joined at once */
    _Atomic int64_t due_ns;  /* time when it may bind: a second after a start, a fork or a stop */
    _Atomic int64_t look_ns; /* time to look whether the program's threads have ended */
} endpoint = {.look_ns = INT64_MAX};

static const struct dp_http_server_calls calls = {
    .admit = dp_http_access_check,
    .begin = deltaprof_http_begin,
    .wait_ns = deltaprof_http_wait_ns,
    .status = deltaprof_http_status,
    .header = deltaprof_http_header,
    .read = deltaprof_http_read,
    .end = deltaprof_http_end,
    .remap = dp_mem_remap,
    .unmap = dp_mem_unmap,
};

static void say_where(const struct dp_config_address *address)
{
    if (address->any.sa_family == AF_UNIX)
        dp_log(DP_LOG_INFO, "profiles at %s, /debug/pprof/", texts.listen);
    else
        dp_log(DP_LOG_INFO, "profiles at %s, port %u, /debug/pprof/", texts.listen,
               (unsigned)ntohs(address->in.sin_port));
}

/*
 * Logs that the address is not served. Not in a forked child that finds the port in use: the address is served by
 * another process. And not in a child whose parent failed too, and logged it.
 */
static void say_not_served(int err)
{
    char name[16], program[DP_PROGRAM_TEXT];
    if (endpoint.forked && (err == -EADDRINUSE || endpoint.has_failed))
        return;
    pid_t pid = err == -EADDRINUSE ? dp_http_wrapper_server_above(name) : 0;
    dp_process_program(program);
    endpoint.has_failed = true;
    errno = -err;
    if (pid)
        dp_log(
            DP_LOG_ERROR,
            "listen=%s: process %d (%s), which started this one, has the port; set exe=%s or a range of ports to serve "
            "this process",
            texts.listen, (int)pid, name, program);
    else
        dp_log(DP_LOG_ERROR, "listen=%s, %m, profiles are not served", texts.listen);
}

static void serve(const struct dp_http_server_ops *ops, int stop_fd)
{
    struct dp_config_address address;
    if (dp_config_address_parse(&address, texts.listen))
        return;
    pthread_setname_np(pthread_self(), "deltaprof-http"); /* by which wrapper.c finds it */
    dp_http_access_init(texts.token, address.local && address.any.sa_family != AF_UNIX);
    int fd = dp_http_socket_open(&address, texts.listen);
    if (fd < 0) {
        say_not_served(fd);
        return;
    }
    say_where(&address);
    struct dp_http_server_conf conf = {
        .listen_fd = fd,
        .stop_fd = stop_fd,
        .max_connections = MAX_CONNECTIONS,
        .request_s = REQUEST_S,
        .reply_s = REPLY_S,
        .library_is_ours = endpoint.library_is_ours,
        .calls = &calls,
    };
    struct signalfd_siginfo signal;
    int err = 0;
    do
        err = ops->run(&conf);
    while (!err && read(stop_fd, &signal, sizeof signal) > 0 && dp_relay_is_open());
    close(fd);
    dp_http_socket_remove_file();
    if (err) {
        errno = -err;
        dp_log(DP_LOG_ERROR, "listen=%s, the HTTP library failed, %m, profiles are not served any more", texts.listen);
        dp_store_relaxed(&endpoint.wanted, false);
    }
}

/*
 * Waits while this program only waits for another one, which should have the address; asks once a second. False: the
 * endpoint was stopped meanwhile.
 */
static bool wait_for_address(int stop_fd)
{
    struct signalfd_siginfo signal;
    struct pollfd stop = {.fd = stop_fd, .events = POLLIN};
    while (endpoint.every_program && dp_http_wrapper_only_waits()) {
        if (poll(&stop, 1, AFTER_NS / 1000000) > 0)
            (void)!read(stop_fd, &signal, sizeof signal);
        if (!dp_relay_is_open())
            return false;
    }
    return true;
}

static void *serve_apart(void *unused)
{
    dp_thread_mark_own();
    dp_agent_alone_thread_begins();
    dp_relay_use();
    dp_mem_yield(true);
    dp_agent_signals_unblock_crashes();
    const struct dp_http_server_ops *ops = dp_module_opened(&module);
    int err = dp_process_own_descriptors();
    if (err) {
        errno = -err;
        dp_log(DP_LOG_ERROR, "listen=%s, cannot separate the descriptor table, %m, profiles are not served",
               texts.listen);
    } else {
        sigset_t stop;
        sigemptyset(&stop);
        sigaddset(&stop, STOP_SIGNAL);
        int stop_fd = signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
        if (stop_fd < 0)
            say_not_served(-errno);
        else if (ops && wait_for_address(stop_fd))
            serve(ops, stop_fd);
        close(stop_fd);
    }
    dp_relay_close();
    dp_agent_alone_thread_ends();
    dp_agent_alone_keep_status();
    return unused;
}

/* Whether only threads of the profiler are left: then the endpoint must not keep the process alive. */
static bool is_over(void)
{
    if (!dp_agent_alone_has_main_exited())
        return false;
    dp_store_relaxed(&endpoint.look_ns, dp_clock_ns() + LOOK_NS);
    return dp_agent_alone_is();
}

/* Serves in another thread until the relay is closed. */
static void run_server(void)
{
    pthread_t server;
    int err = dp_agent_spawn(&server, STACK_BYTES, serve_apart, NULL);
    if (err) {
        errno = -err;
        dp_log(DP_LOG_ERROR, "listen=%s, cannot create a thread, %m, profiles are not served", texts.listen);
        return;
    }
    while (!dp_relay_run(&endpoint.look_ns))
        if (is_over())
            dp_relay_close();
    pthread_kill(server, STOP_SIGNAL);
    pthread_join(server, NULL);
}

static void *run(void *unused)
{
    dp_thread_mark_own();
    dp_agent_alone_thread_begins();
    dp_agent_signals_unblock_crashes();
    pthread_setname_np(pthread_self(), "deltaprof-relay");
    if (!dp_relay_run(&endpoint.due_ns) && !is_over())
        run_server();
    dp_agent_alone_thread_ends();
    dp_store_release(&endpoint.ended, 1); /* [END] what the thread did is done when another one sees it */
    dp_futex_wake(&endpoint.ended);
    dp_agent_alone_keep_status();
    return unused;
}

static bool is_missing(void)
{
    return dp_load_relaxed(&endpoint.wanted) && !dp_load_relaxed(&endpoint.forbidden) &&
           !dp_load_relaxed(&endpoint.running);
}

bool dp_http_listen_is_running(void)
{
    return dp_load_relaxed(&endpoint.running);
}

bool dp_http_listen_start(void)
{
    if (!is_missing() || !dp_lock_try(&endpoint.life))
        return false;
    bool makes = is_missing() && !dp_agent_is_blocked();
    if (makes) {
        dp_store_relaxed(&endpoint.running, true);
        dp_store_relaxed(&endpoint.ended, 0);
        dp_relay_open();
        int err = dp_agent_spawn(&endpoint.thread, STACK_BYTES, run, NULL);
        if (err) {
            errno = -err;
            dp_log(DP_LOG_ERROR, "listen=%s, cannot create a thread, %m, profiles are not served", texts.listen);
            dp_store_relaxed(&endpoint.wanted, false);
            dp_store_relaxed(&endpoint.running, false);
            makes = false;
        }
        dp_agent_keep_polling(false);
    }
    dp_lock_unlock(&endpoint.life);
    return makes;
}

DP_IN_CHILD static void due_in_a_second(void)
{
    dp_store_relaxed(&endpoint.due_ns, dp_clock_coarse_ns() + AFTER_NS);
    dp_agent_keep_polling(is_missing());
}

void dp_http_listen_init(const struct dp_config *conf)
{
    if (&dp_module_http)
        module.builtin = &dp_module_http;
    /* If the program has linked the library too, the library's process-wide settings are left alone. */
    endpoint.library_is_ours = !dlsym(RTLD_DEFAULT, "MHD_set_panic_func");
    if (!dp_module_open(&module)) {
        dp_log(DP_LOG_ERROR, "listen=%s, module http: %s, profiles are not served", conf->listen,
               dp_load_acquire(&module.error));
        return;
    }
    dp_report_load(conf); /* with this thread the process has threads, and its children may not open modules */
    strcpy(texts.listen, conf->listen);
    strcpy(texts.token, conf->token);
    endpoint.every_program = strcmp(conf->exe, "*") == 0;
    dp_store_relaxed(&endpoint.wanted, true);
    dp_store_relaxed(&endpoint.due_ns, dp_clock_ns() + AFTER_NS);
    dp_http_listen_start();
}

/* A thread that is late ends by itself as soon as it can, and is joined by the next call. */
bool dp_http_listen_stop(int64_t deadline_ns)
{
    if (!dp_lock_lock_until(&endpoint.life, deadline_ns)) /* [BLOCK] a start that goes on is seen below */
        return false;
    bool ended = false;
    if (dp_load_relaxed(&endpoint.running)) {
        dp_relay_close();
        while (!(ended = dp_load_acquire(&endpoint.ended)) && dp_clock_ns() < deadline_ns) /* [END] */
            dp_futex_wait(&endpoint.ended, 0, deadline_ns);
        if (ended) {
            pthread_join(endpoint.thread, NULL);
            dp_store_relaxed(&endpoint.running, false);
            due_in_a_second();
        }
    }
    dp_lock_unlock(&endpoint.life);
    return ended;
}

void dp_http_listen_before_thread_exit(void)
{
    if (!dp_load_relaxed(&endpoint.running))
        return;
    dp_store_relaxed(&endpoint.due_ns, 0);
    dp_store_relaxed(&endpoint.look_ns, 0);
    dp_relay_wake();
}

void dp_http_listen_forbid(int64_t deadline_ns)
{
    dp_store_relaxed(&endpoint.forbidden, true);
    dp_http_listen_stop(deadline_ns);
}

DP_IN_CHILD void dp_http_listen_fork_child(void)
{
    dp_lock_reset(&endpoint.life);
    dp_store_relaxed(&endpoint.running, false);
    dp_store_relaxed(&endpoint.look_ns, INT64_MAX);
    dp_http_socket_fork_child();
    endpoint.forked = true;
    due_in_a_second();
}
