/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/serve.c - the socket, and two threads: one answers requests; the other looks for processes that began or
 * ended, when the directory changes and twice a second, and writes files.
 */
#include "tool/serve/serve.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/module.h"
#include "endpoint/access.h"
#include "endpoint/socket.h"
#include "pprof/gzip.h"
#include "tool/query/installed.h"
#include "tool/query/print.h"
#include "tool/serve/answer.h"
#include "tool/serve/family.h"
#include "tool/serve/saved_part.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_CONNECTIONS  64
#define REQUEST_S        10
#define REPLY_S          120
#define BIND_TRIES       50
#define ENDED_AT_ONCE    8 /* then requests are answered */
#define LOOK_MS          500
#define LIMIT_NS         INT64_C(600000000000)
#define TOUCH_NS         INT64_C(60000000000)
#define REQUEST_FIRST_MS 100
#define PREPARE_NS       INT64_C(1000000000)
#define LAST_NS          INT64_C(5000000000)
#define LOOKS_ALONE      4 /* so often nobody must be there, before the program counts as ended */

static struct dp_serve_pushers pushers;
static struct {
    const char *out;
    uint64_t keep; /* 0: no file is deleted */
} limit;

struct looker {
    int signals, changes, stop; /* descriptors */
    pid_t program;
    int n_alone;
    int64_t limited_ns; /* when old files were deleted */
    int64_t touched_ns; /* when the lock's file was */
    int lock;
};

static bool is_over(struct looker *l)
{
    bool alone = l->program && kill(l->program, 0) && errno == ESRCH && !dp_serve_family.workers.at.n;
    l->n_alone = alone ? l->n_alone + 1 : 0;
    return l->n_alone >= LOOKS_ALONE;
}

/* A mutex goes to the thread that asks first, which would be the one that had it. */
static void let_requests_go_first(void)
{
    for (int ms = 0; ms < REQUEST_FIRST_MS && dp_load_relaxed(&dp_serve_family.n_asking); ms++)
        usleep(1000);
}

/* Of each process at most once. Requests are answered between the files of two processes. */
static void write_files(bool is_last)
{
    int64_t now_ns = dp_clock_coarse_ns();
    for (bool some = true; some;) {
        pthread_mutex_lock(&dp_serve_family.lock);
        some = dp_serve_workers_write_next(&dp_serve_family.workers, now_ns, is_last);
        pthread_mutex_unlock(&dp_serve_family.lock);
        let_requests_go_first();
    }
}

/* Of each process once. Requests are answered in between. */
static void prepare_workers(int64_t until_ns)
{
    struct dp_serve_family *f = &dp_serve_family;
    for (bool some = true; some && dp_clock_coarse_ns() < until_ns;) {
        let_requests_go_first();
        pthread_mutex_lock(&f->lock);
        some = dp_serve_workers_prepare_next(&f->workers, dp_serve_saved_add, f);
        pthread_mutex_unlock(&f->lock);
    }
}

/* How long nothing is to be done, if nothing happens. */
static int pause_ms(int n_left)
{
    pthread_mutex_lock(&dp_serve_family.lock);
    int64_t due_ns = dp_serve_workers_due(&dp_serve_family.workers);
    pthread_mutex_unlock(&dp_serve_family.lock);
    int64_t ms = due_ns == INT64_MAX ? LOOK_MS : (due_ns - dp_clock_coarse_ns()) / 1000000 + 1;
    return n_left > 0 || ms < 1 ? 1 : ms < LOOK_MS ? (int)ms : LOOK_MS;
}

static void limit_files(struct looker *l)
{
    int64_t now_ns = dp_clock_coarse_ns();
    if (!limit.keep || now_ns - l->limited_ns < LIMIT_NS)
        return;
    l->limited_ns = now_ns;
    dp_recover_files_limit(limit.out, limit.keep);
}

/* If this process is killed, those that end within the hour from now on leave their tables. */
static void touch_lock(struct looker *l)
{
    int64_t now_ns = dp_clock_coarse_ns();
    if (now_ns - l->touched_ns < TOUCH_NS)
        return;
    l->touched_ns = now_ns;
    dp_recover_touch_files(l->lock);
}

/* Of the last look. Requests are answered in between. Returns how many are left, or a negative errno. */
static int end_left(int n_left)
{
    struct dp_serve_family *f = &dp_serve_family;
    for (int64_t until_ns = dp_clock_coarse_ns() + LOOK_MS * INT64_C(1000000);
         n_left > 0 && dp_clock_coarse_ns() < until_ns;) {
        let_requests_go_first();
        pthread_mutex_lock(&f->lock);
        n_left = dp_serve_workers_end_left(&f->workers, ENDED_AT_ONCE, dp_serve_saved_add, f);
        pthread_mutex_unlock(&f->lock);
    }
    return n_left;
}

static void *look_for_changes(void *looker)
{
    struct looker *l = looker;
    char events[4096];
    int n_left = 0;
    for (bool stops = false; !stops;) {
        struct pollfd fds[2] = {{.fd = l->signals, .events = POLLIN}, {.fd = l->changes, .events = POLLIN}};
        poll(fds, 2, pause_ms(n_left));
        if (fds[1].revents)
            (void)!read(l->changes, events, sizeof events);
        pthread_mutex_lock(&dp_serve_family.lock);
        n_left = dp_serve_workers_look(&dp_serve_family.workers, ENDED_AT_ONCE, dp_serve_saved_add, &dp_serve_family);
        dp_serve_saved_limit(&dp_serve_family);
        stops = fds[0].revents || is_over(l);
        pthread_mutex_unlock(&dp_serve_family.lock);
        n_left = stops ? n_left : end_left(n_left);
        prepare_workers(stops ? 0 : dp_clock_coarse_ns() + PREPARE_NS);
        write_files(false);
        limit_files(l);
        touch_lock(l);
        if (!stops)
            dp_serve_pushers_start(&pushers);
    }
    (void)!write(l->stop, &(uint64_t){1}, sizeof(uint64_t));
    return NULL;
}

/* The signals that end this program. Blocked before it says where it listens: it may be told to end right after. */
static void block_ends(sigset_t *ends)
{
    sigemptyset(ends);
    sigaddset(ends, SIGINT);
    sigaddset(ends, SIGTERM);
    sigaddset(ends, SIGHUP);
    sigprocmask(SIG_BLOCK, ends, NULL);
}

static int open_looker(struct looker *l)
{
    sigset_t ends;
    block_ends(&ends);
    l->signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    l->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (l->signals < 0 || l->stop < 0)
        return -errno;
    if (l->changes >= 0) /* without it processes are found by the clock */
        inotify_add_watch(l->changes, dp_serve_family.workers.path, IN_MOVED_TO | IN_DELETE);
    return 0;
}

static int serve(const struct dp_serve_options *options, const struct dp_http_server_ops *ops, int socket, int lock)
{
    struct looker looker = {.program = options->program, .lock = lock};
    pthread_t thread;
    int err = open_looker(&looker);
    if (!err)
        err = -pthread_create(&thread, NULL, look_for_changes, &looker);
    if (err)
        return err;
    const struct dp_http_server_conf conf = {
        .listen_fd = socket,
        .stop_fd = looker.stop,
        .max_connections = MAX_CONNECTIONS,
        .request_s = REQUEST_S,
        .reply_s = REPLY_S,
        .library_is_ours = true,
        .calls = &dp_serve_answer_calls,
    };
    err = ops->run(&conf);
    kill(getpid(), SIGTERM); /* the looker's, if the server ended by itself; else it is blocked */
    pthread_join(thread, NULL);
    return err;
}

bool dp_serve_address_parse(const char *text, bool has_token, const char *verb, const char *option,
                            struct dp_config_address *address)
{
    if (dp_config_address_parse(address, text))
        dp_query_print_error(verb, "%s %s: not HOST:PORT, HOST:PORT-PORT or unix:PATH", option, text);
    else if (!address->local && !has_token)
        dp_query_print_error(verb, "%s %s: other machines could read it: give %s too", option, text,
                             strcmp(verb, "run") ? "--token FILE" : "-o token=FILE");
    else
        return true;
    return false;
}

static int open_socket(const struct dp_serve_options *options, struct dp_config_address address,
                       struct dp_config_address *bound)
{
    dp_http_access_init(options->token, address.local && address.any.sa_family != AF_UNIX);
    int fd = dp_http_socket_open(&address, options->listen);
    for (int i = 0; fd == -EADDRINUSE && options->program && i < BIND_TRIES;
         i++) { /* by the server of an earlier run */
        usleep(100000);
        fd = dp_http_socket_open(&address, options->listen);
    }
    if (fd < 0)
        dp_query_print_error("serve", "--listen %s: %s", options->listen, strerror(-fd));
    *bound = address;
    return fd;
}

static void print_address(const struct dp_serve_options *options, const struct dp_config_address *address)
{
    if (address->any.sa_family == AF_UNIX)
        printf("profiles of %s at %s\n", dp_serve_family.workers.path, options->listen);
    else
        printf("profiles of %s at http://%.*s:%u/debug/pprof/\n", dp_serve_family.workers.path,
               (int)(strrchr(options->listen, ':') - options->listen), options->listen,
               (unsigned)ntohs(address->in.sin_port));
    fflush(stdout);
    if (options->program) { /* nobody reads on */
        (void)!freopen("/dev/null", "w", stdout);
        (void)!freopen("/dev/null", "w", stderr);
    }
}

static void close_socket(int socket)
{
    close(socket);
    dp_http_socket_remove_file();
}

/* Makes the directory of files, if they are wanted. False: the reason was printed. */
static bool prepare_files(const struct dp_serve_options *options, char out[PATH_MAX])
{
    if (!options->out)
        return true;
    char inside[PATH_MAX + 2];
    bool is_there = (!mkdir(options->out, 0700) || errno == EEXIST) && realpath(options->out, out);
    snprintf(inside, sizeof inside, "%s/.", out);
    if (!is_there || access(inside, W_OK | X_OK)) {
        dp_query_print_error("serve", "-o %s: %s", options->out, strerror(errno));
        return false;
    }
    dp_recover_files_clean(out);
    return true;
}

/* Reads the tables of all processes that have ended, or as many as it can until then. */
static void end_all(int64_t until_ns)
{
    struct dp_serve_family *f = &dp_serve_family;
    int n = dp_serve_workers_look(&f->workers, ENDED_AT_ONCE, dp_serve_saved_add, f);
    while (n > 0 && dp_clock_coarse_ns() < until_ns)
        n = dp_serve_workers_end_left(&f->workers, ENDED_AT_ONCE, dp_serve_saved_add, f);
}

/*
 * Without -o: writes the last files of a server that wrote files, and then takes back the mark of that. Its cursors go
 * on before, since a table is deleted with its last files.
 */
static void end_earlier_files(const struct dp_serve_options *options, int lock)
{
    char why[DP_RECOVER_WHY];
    end_all(INT64_MAX);
    if (dp_recover_serve(lock, options->tables, "", why))
        dp_query_print_error("serve", "%s", why);
}

/*
 * The files of all processes until now. The next server goes on where these end, and has the tables of processes that
 * end meanwhile, or of which there are too many for LAST_NS. A family's server has no next one.
 */
static void finish_files(bool is_family)
{
    end_all(is_family ? INT64_MAX : dp_clock_coarse_ns() + LAST_NS);
    write_files(true);
    if (pushers.n)
        dp_serve_pushers_finish(&pushers);
    if (limit.keep)
        dp_recover_files_limit(limit.out, limit.keep);
}

/* From now on they are kept, unless the server is a family's, which has no next one. */
static void continue_cursors(const struct dp_serve_options *options, int lock)
{
    struct dp_serve_family *f = &dp_serve_family;
    char path[PATH_MAX];
    if (options->tables)
        snprintf(path, sizeof path, "%s", options->tables);
    else
        dp_tables_place_default(path, sizeof path);
    f->saved.is_wanted = !options->program;
    f->saved.lock = lock;
    int got = dp_serve_saved_read(f, path);
    memcpy(f->workers.path, path, sizeof path);
    if (got < 0)
        dp_query_print_error("serve", "%s/" DP_SERVE_SAVED_NAME ": %s; cursors begin anew", path,
                             got == -EBADMSG ? "damaged, or of another version" : strerror(-got));
    if (f->saved.is_wanted) /* before any process is read: then it is short */
        dp_serve_saved_write(f, false);
}

/* Whether there is a file of them. */
static bool save_cursors(void)
{
    int saved = dp_serve_saved_write(&dp_serve_family, true);
    if (saved < 0)
        dp_query_print_error("serve", "%s/" DP_SERVE_SAVED_NAME ": %s; cursors end now", dp_serve_family.workers.path,
                             strerror(-saved));
    return saved > 0;
}

/*
 * What can fail comes before what changes the files beside the tables: after a start that failed, the next server goes
 * on where the last one ended. ends_files: end_earlier_files follows. Returns the lock; or a negative errno, and the
 * reason was printed.
 */
static int begin_serving(const struct dp_serve_options *options, const char *out, bool ends_files,
                         struct dp_config_address *address, int *socket)
{
    char why[DP_RECOVER_WHY];
    sigset_t ends;
    int lock = dp_recover_lock(options->tables, why);
    if (lock < 0) {
        dp_query_print_error("serve", "%s", why);
        return lock;
    }
    block_ends(&ends);
    *socket = open_socket(options, *address, address);
    int err = *socket < 0 ? *socket : ends_files ? 0 : dp_recover_serve(lock, options->tables, out, why);
    if (!err)
        return lock;
    if (*socket >= 0) {
        dp_query_print_error("serve", "%s", why);
        close_socket(*socket);
    }
    close(lock);
    return err;
}

int dp_serve_run(const struct dp_serve_options *options)
{
    struct dp_serve_family *f = &dp_serve_family;
    static char modules[PATH_MAX];
    static struct dp_module http = {.name = "http"};
    const struct dp_http_server_ops *ops = NULL;
    struct dp_config_address address;
    if (!dp_serve_address_parse(options->listen, *options->token, "serve", "--listen", &address))
        return DP_EXIT_USAGE;
    if (!dp_query_naming_module_dir(modules)) {
        http.dir = modules;
        ops = dp_module_open(&http);
    }
    if (!ops) {
        dp_query_print_error("serve", "the module http is not there: %s", http.error ? http.error : "not installed");
        return DP_EXIT_FAILED;
    }
    char out[PATH_MAX] = "", before[PATH_MAX];
    if (!prepare_files(options, out))
        return DP_EXIT_FAILED;
    dp_mem_cap(SIZE_MAX); /* what the processes did is joined here */
    f->workers.directory = options->tables;
    pushers.program = options->pusher;
    pushers.dir = out;
    pushers.n = options->n_to;
    memcpy(pushers.urls, options->to, sizeof pushers.urls);
    limit.out = out;
    f->out = out;
    limit.keep = options->out ? (uint64_t)options->keep : 0;
    f->workers.interval_ns = options->out ? options->interval_ns : 0;
    bool ends_files = !options->out && dp_recover_was_served(options->tables, before);
    int socket = -1, lock = begin_serving(options, out, ends_files, &address, &socket);
    if (lock < 0)
        return DP_EXIT_FAILED;
    bool is_saved = false;
    continue_cursors(options, lock);
    if (ends_files)
        end_earlier_files(options, lock);
    dp_serve_saved_keep_tables(&f->saved, !*out);
    int err = dp_serve_workers_look(&f->workers, 0, dp_serve_saved_add, f);
    err = err < 0 ? err : 0;
    bool began = !err;
    if (began) {
        prepare_workers(dp_clock_coarse_ns() + PREPARE_NS);
        print_address(options, &address);
        err = serve(options, ops, socket, lock);
        if (err)
            dp_query_print_error("serve", "%s: %s", options->listen, strerror(-err));
    }
    close_socket(socket);
    if (began) {
        finish_files(options->program);
        is_saved = !options->program && save_cursors();
    }
    if (is_saved && !*out)
        dp_recover_keep_tables(lock);
    else if (options->program || !*out)
        dp_recover_end_files(lock);
    else
        dp_recover_touch_files(lock);
    if (options->program)
        dp_recover_end_serving(f->workers.path);
    dp_serve_saved_fini(&f->saved);
    dp_serve_cursors_fini(&f->cursors);
    dp_serve_workers_fini(&f->workers);
    close(lock);
    return err ? DP_EXIT_FAILED : 0;
}
