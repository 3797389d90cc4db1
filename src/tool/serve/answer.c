/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/answer.c - answers requests for profiles of all processes.
 *
 * A reply is made whole, in the thread of the server, when its request is complete, or when the window of ?seconds= has
 * passed. What it takes from its cursor comes back unless every byte arrived, or, with ?after=, unless the client's
 * next request says so.
 *
 * The settings of a profile belong to the processes; requests that ask for other ones are refused.
 */
#include "tool/serve/answer.h"

#include "base/clock.h"
#include "endpoint/access.h"
#include "endpoint/openmetrics.h"
#include "endpoint/reply_headers.h"
#include "endpoint/request.h"
#include "pprof/gzip.h"
#include "tool/serve/family.h"
#include "tool/serve/history.h"
#include "tool/serve/join.h"
#include "tool/serve/pages.h"
#include "tool/serve/waits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT "text/plain; charset=utf-8"
#define HTML "text/html; charset=utf-8"

#define NO_DIRECTORY "the directory of the tables cannot be read; the log of deltaprof serve says why"
#define NO_PROCESS   "pid: no profiled process that runs has it; the index lists them"

struct dp_serve_family dp_serve_family = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct deltaprof_http_reply {
    struct dp_http_request request;
    struct dp_http_reply_headers headers;
    struct dp_recover_bytes text;
    char line[160];                  /* of an error that names something */
    struct dp_serve_history history; /* of the page: what follows the text */
    size_t n_sent;
    int64_t window_ns;              /* monotonic end of ?seconds=; 0: none */
    struct dp_serve_cursor *window; /* what happens in it */
    char cursor[DP_CURSOR_NAME_MAX + 1];
    struct dp_serve_deltas taken; /* from that cursor */
    uint64_t seq;
    bool is_taken, has_history;
};

static int64_t wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void refuse(struct deltaprof_http_reply *r, int status, const char *message)
{
    r->request.page = DP_HTTP_PAGE_ERROR;
    r->request.status = status;
    r->request.message = message;
}

/* ---- profiles ---- */

/* Processes that have ended are read by another thread (serve.c). */
static int read_directory(struct dp_serve_family *f)
{
    int n = dp_serve_workers_look(&f->workers, 0, dp_serve_saved_add, f);
    return n < 0 ? n : 0;
}

/* Whether the request can be answered from outside. */
static void check(struct deltaprof_http_reply *r)
{
    const struct dp_http_request *q = &r->request;
    if (!dp_serve_workers_tell(q->kind))
        refuse(r, 404,
               "a process counts this at its own reports, so its tables do not have all of it: ask one with `listen`, "
               "or see the files of -o after its end");
    else if (q->has_types || q->has_symbolize || q->has_max_samples || q->has_age || q->text || q->locks)
        refuse(r, 400,
               "types, symbolize, max_samples, age, lock and debug are settings of a process: ask one with `listen`");
    else if (q->pid && !dp_serve_workers_find(&dp_serve_family.workers, q->pid))
        refuse(r, 404, NO_PROCESS);
    else if (!dp_serve_family.workers.at.n && !dp_serve_family.workers.n_ended)
        refuse(r, 503, "no profiled process has begun yet");
    else if (dp_serve_workers_lack(&dp_serve_family.workers, q->kind, q->pid))
        dp_http_request_refuse_off(&r->request, q->pid, r->line, sizeof r->line);
    else if (q->seconds && !dp_serve_family.workers.at.n)
        refuse(r, 503, "no profiled process runs now");
}

static void write_joined(struct deltaprof_http_reply *r, const struct dp_serve_deltas *deltas, int64_t from_ns)
{
    struct dp_gzip *gzip = dp_gzip_new(dp_recover_append, &r->text);
    const struct dp_serve_join join = {
        .deltas = deltas->at.at,
        .n = deltas->at.n,
        .shape = dp_serve_family.workers.ended[r->request.kind],
        .turn = dp_serve_family.workers.turn,
        .default_type = r->request.profile->default_type,
        .from_ns = from_ns,
        .to_ns = from_ns ? wall_ns() : 0,
    };
    int err = gzip ? dp_serve_join_write(&join, dp_gzip_write, gzip) : -ENOMEM;
    if (!err)
        err = dp_gzip_finish(gzip);
    dp_gzip_free(gzip);
    if (err == -ENOMEM)
        refuse(r, 503, "no memory to join the profiles");
    else if (err)
        refuse(r, 503, "profiles of these processes cannot be added, as their keys differ; ask for one: ?pid=N");
}

/* Reads what happened, for all cursors of the kind; for a profile of the process with this pid, 0: of all. */
static int collect(unsigned kind, pid_t pid)
{
    struct dp_serve_family *f = &dp_serve_family;
    dp_serve_workers_refresh(&f->workers);
    return dp_serve_workers_collect(&f->workers, kind, pid, dp_serve_saved_add, f);
}

/* Where the profiles of a process begin, or of all. */
static int64_t begin_ns(pid_t pid)
{
    const struct dp_serve_worker *w = pid ? dp_serve_workers_find(&dp_serve_family.workers, pid) : NULL;
    return w ? w->table.begin_wall_ns : dp_serve_family.workers.first_ns;
}

/*
 * The next request says whether this reply arrived, also where it is refused. That request can come before the server
 * knows that this connection has ended.
 */
static void wait_for_answer(struct deltaprof_http_reply *r, struct dp_serve_cursor *c)
{
    c->sent = r->taken;
    c->is_sent = true;
    memset(&r->taken, 0, sizeof r->taken);
    dp_serve_saved_settle(&dp_serve_family, c, r->seq, DP_SERVE_SAVED_SENT);
}

static void begin_delta(struct deltaprof_http_reply *r)
{
    struct dp_serve_family *f = &dp_serve_family;
    const struct dp_http_request *q = &r->request;
    bool is_new, went_back = false;
    int err = collect(q->kind, q->pid);
    struct dp_serve_cursor *c = dp_serve_cursors_get(&f->cursors, q->cursor, q->kind, q->pid, false, &is_new);
    if (!c) {
        refuse(r, 503, "too many cursors, or no memory for another one");
        return;
    }
    if (q->acknowledges && !q->from_now && dp_serve_cursor_is_earlier(c, q->after)) {
        if (is_new)
            dp_serve_cursors_remove(&f->cursors, c);
        refuse(r, 409,
               "after: an earlier deltaprof serve sent that reply, and its cursors ended with it; ask without it "
               "for all since each process began, or with from=now");
        return;
    }
    if (is_new)
        c->pending.from_ns = begin_ns(q->pid);
    if (is_new && !q->from_now)
        err = dp_serve_workers_since_start(&f->workers, q->kind, q->pid, dp_serve_cursor_add, c);
    if (is_new)
        dp_serve_saved_cursor(f, c);
    if (err) {
        refuse(r, 503, "no memory for the profiles");
        return;
    }
    uint64_t seq = c->seq;
    if (q->from_now) {
        dp_serve_deltas_clear(&c->pending);
        dp_serve_cursor_clear_sent(c);
        c->pending.from_ns = wall_ns();
        dp_serve_saved_cursor(f, c);
        err = collect(q->kind, q->pid); /* a profile of nothing still has its types, and what is in use */
    } else if (q->acknowledges && !dp_serve_cursor_acknowledge(c, q->after)) {
        refuse(r, 409, "after: neither the last reply that arrived nor the last that was sent; ask without it");
        return;
    } else if (!q->acknowledges) {
        dp_serve_cursor_clear_sent(c);
    }
    went_back = c->seq < seq;
    if (err) {
        refuse(r, 503, "no memory for the profiles");
        return;
    }
    strcpy(r->cursor, q->cursor);
    dp_serve_cursor_detach(c, &r->taken, wall_ns());
    r->seq = ++c->seq;
    r->is_taken = !q->acknowledges;
    dp_serve_saved_detach(f, c, q->acknowledges, went_back);
    write_joined(r, &r->taken, r->taken.from_ns);
    if (q->acknowledges)
        wait_for_answer(r, c);
}

static void begin_total(struct deltaprof_http_reply *r)
{
    struct dp_serve_family *f = &dp_serve_family;
    const struct dp_http_request *q = &r->request;
    struct dp_serve_cursor all = {.kind = q->kind};
    dp_serve_workers_refresh(&f->workers);
    int err = dp_serve_workers_since_start(&f->workers, q->kind, q->pid, dp_serve_cursor_add, &all);
    if (err)
        refuse(r, 503, "no memory for the profiles");
    else
        write_joined(r, &all.pending, begin_ns(q->pid));
    dp_serve_deltas_clear(&all.pending);
}

static void begin_window(struct deltaprof_http_reply *r)
{
    bool is_new;
    const struct dp_http_request *q = &r->request;
    if (!collect(q->kind, q->pid))
        r->window = dp_serve_cursors_get(&dp_serve_family.cursors, "", q->kind, q->pid, true, &is_new);
    if (!r->window) {
        refuse(r, 503, "too many cursors, or no memory for another one");
        return;
    }
    r->window->pending.from_ns = wall_ns();
    r->window_ns = dp_clock_ns() + q->seconds * 1000000000;
}

static void end_window(struct deltaprof_http_reply *r)
{
    r->window_ns = 0;
    if (collect(r->request.kind, r->request.pid))
        refuse(r, 503, "no memory for the profiles");
    else if (!r->window->pending.at.n)
        refuse(r, 503, "the process has ended meanwhile");
    else
        write_joined(r, &r->window->pending, r->window->pending.from_ns);
    dp_serve_cursors_remove(&dp_serve_family.cursors, r->window);
    r->window = NULL;
}

static void begin_profile(struct deltaprof_http_reply *r)
{
    struct dp_serve_family *f = &dp_serve_family;
    if (read_directory(f) < 0) {
        refuse(r, 503, NO_DIRECTORY);
        return;
    }
    check(r);
    if (r->request.page != DP_HTTP_PAGE_PROFILE || r->request.head)
        return;
    if (r->request.profile->is_delta)
        begin_delta(r);
    else if (r->request.seconds)
        begin_window(r);
    else
        begin_total(r);
}

/* Of one process, its own page; of all, the pages joined. */
static void begin_waits(struct deltaprof_http_reply *r)
{
    struct dp_serve_family *f = &dp_serve_family;
    const struct dp_http_request *q = &r->request;
    if (read_directory(f) < 0) {
        refuse(r, 503, NO_DIRECTORY);
        return;
    }
    const struct dp_serve_worker *w = q->pid ? dp_serve_workers_find(&f->workers, q->pid) : NULL;
    if (q->pid && !w) {
        refuse(r, 404, NO_PROCESS);
        return;
    }
    if (w)
        dp_serve_workers_refresh(&f->workers);
    int err = w ? dp_recover_waits(w->reader, dp_recover_append, &r->text)
                : dp_serve_waits_write(f, dp_recover_append, &r->text);
    if (err)
        refuse(r, 503, "the waits could not be read");
}

/* ---- all pages ---- */

static const char *begin_page(struct deltaprof_http_reply *r)
{
    struct dp_serve_family *f = &dp_serve_family;
    int err = 0;
    switch (r->request.page) {
    case DP_HTTP_PAGE_PROFILE:
        begin_profile(r);
        return TEXT;
    case DP_HTTP_PAGE_INDEX:
        err = read_directory(f);
        err = err ? err : collect(DP_KIND_HEAP, 0);
        err = err ? err : dp_serve_pages_index(f, dp_recover_append, &r->text);
        break;
    case DP_HTTP_PAGE_METRICS:
        err = read_directory(f);
        err = err ? err : dp_serve_pages_metrics(f, dp_recover_append, &r->text);
        if (err)
            refuse(r, 503, "the metrics could not be made");
        return DP_OPENMETRICS_TYPE;
    case DP_HTTP_PAGE_VIEW:
        err = r->request.head ? 0 : read_directory(f);
        err = err || r->request.head ? err : dp_serve_history_begin(&r->history, f, dp_recover_append, &r->text);
        r->has_history = !err && !r->request.head;
        break;
    case DP_HTTP_PAGE_WAITS:
        begin_waits(r);
        return TEXT;
    case DP_HTTP_PAGE_SYMBOL:
    case DP_HTTP_PAGE_CMDLINE:
        refuse(r, 404, "this page is of one process: /proc/PID/cmdline, or its own `listen`");
        return TEXT;
    case DP_HTTP_PAGE_ERROR:
        return TEXT;
    }
    if (err)
        refuse(r, 503, "the page could not be made");
    return HTML;
}

static void write_headers(struct deltaprof_http_reply *r, const char *type)
{
    if (r->request.page == DP_HTTP_PAGE_ERROR) {
        dp_vec_clear(&r->text.at);
        dp_recover_append(&r->text, r->request.message, strlen(r->request.message));
        dp_recover_append(&r->text, "\n", 1);
        type = TEXT;
    }
    dp_http_reply_headers_write(&r->headers, &r->request, type, r->seq, getpid());
}

static void lock_family(void)
{
    dp_add_relaxed(&dp_serve_family.n_asking, 1);
    pthread_mutex_lock(&dp_serve_family.lock);
    dp_sub_relaxed(&dp_serve_family.n_asking, 1);
}

static int begin(const struct deltaprof_http_request *asked, struct deltaprof_http_reply **reply)
{
    struct deltaprof_http_reply *r = *reply = calloc(1, sizeof *r);
    if (!r)
        return -ENOMEM;
    r->history.fd = -1;
    dp_http_request_parse(&r->request, asked->method, asked->target);
    lock_family();
    const char *type = begin_page(r);
    pthread_mutex_unlock(&dp_serve_family.lock);
    write_headers(r, type);
    return 0;
}

static int64_t wait_ns(struct deltaprof_http_reply *r)
{
    if (r->has_history)
        return dp_serve_history_wait_ns(&r->history);
    if (!r->window_ns)
        return 0;
    int64_t left_ns = r->window_ns - dp_clock_ns();
    if (left_ns > 0)
        return left_ns;
    lock_family();
    end_window(r);
    pthread_mutex_unlock(&dp_serve_family.lock);
    write_headers(r, TEXT);
    return 0;
}

static int status(const struct deltaprof_http_reply *r)
{
    return r->request.status;
}

static int header(const struct deltaprof_http_reply *r, size_t i, const char **name, const char **value)
{
    if (i >= r->headers.n)
        return 1;
    *name = r->headers.at[i].name;
    *value = r->headers.at[i].value;
    return 0;
}

static ssize_t read_text(struct deltaprof_http_reply *r, void *buf, size_t n_bytes)
{
    size_t n_text = r->request.head ? 0 : r->text.at.n;
    if (r->has_history && r->n_sent >= n_text) {
        ssize_t n_read = dp_serve_history_read(&r->history, r->n_sent - n_text, buf, n_bytes);
        r->n_sent += n_read > 0 ? (size_t)n_read : 0;
        return n_read;
    }
    size_t n = n_text - r->n_sent;
    if (n > n_bytes)
        n = n_bytes;
    if (n)
        memcpy(buf, r->text.at.at + r->n_sent, n);
    r->n_sent += n;
    return (ssize_t)n;
}

/* What was taken from a cursor for a client that does not say what it has received: it is gone, or comes back. */
static void settle(struct deltaprof_http_reply *r, bool delivered)
{
    const struct dp_http_request *q = &r->request;
    struct dp_serve_family *f = &dp_serve_family;
    if (!r->is_taken)
        return;
    struct dp_serve_cursor *c = dp_serve_cursors_find(&f->cursors, r->cursor, q->kind, q->pid);
    bool has_arrived = q->page == DP_HTTP_PAGE_PROFILE && delivered;
    if (c && !has_arrived)
        dp_serve_cursor_put_back(c, &r->taken);
    dp_serve_saved_settle(f, c, r->seq, has_arrived ? DP_SERVE_SAVED_RECEIVED : DP_SERVE_SAVED_BACK);
}

static void end(struct deltaprof_http_reply *r, int delivered)
{
    if (!r)
        return;
    lock_family();
    settle(r, delivered);
    if (r->window)
        dp_serve_cursors_remove(&dp_serve_family.cursors, r->window);
    dp_serve_deltas_clear(&r->taken);
    pthread_mutex_unlock(&dp_serve_family.lock);
    dp_serve_history_end(&r->history);
    dp_vec_fini(&r->text.at);
    free(r);
}

static void *resize_bytes(void *p, size_t old_bytes, size_t new_bytes)
{
    (void)old_bytes;
    return realloc(p, new_bytes);
}

static void free_bytes(void *p, size_t n_bytes)
{
    (void)n_bytes;
    free(p);
}

const struct dp_http_server_calls dp_serve_answer_calls = {
    .admit = dp_http_access_check,
    .begin = begin,
    .wait_ns = wait_ns,
    .status = status,
    .header = header,
    .read = read_text,
    .end = end,
    .remap = resize_bytes,
    .unmap = free_bytes,
};
