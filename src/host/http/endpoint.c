/* SPDX-License-Identifier: MIT */
/*
 * host/http/endpoint.c - answers requests for profiles, without sockets: the host passes a request and reads the reply.
 *
 * A reply is a text kept in memory (an error, the index, cmdline, metrics, the HTML page), or a body that a thread of
 * the profiler, the producer, writes while the host reads it through a ring of 64 KiB. With ?seconds= the producer
 * starts when the window has passed. The host's thread never serialises, symbolises or waits.
 *
 * The status is decided when the profile has ended or half fills the ring. If the profile fails before that, the reply
 * is 503 with a line of text; if it fails later, or the host has already read the status, the body is cut off.
 *
 * Ownership: the host owns a reply until deltaprof_http_end. If the producer is still at work then, the producer
 * becomes the owner: its next write fails, then it tells the cursor that the reply is lost and frees the reply.
 * So deltaprof_http_end never waits.
 *
 * A reply is delivered if produce succeeded, read returned the end, and the host said so. Otherwise the baseline stays.
 * With after=N, the client's next request decides instead.
 */
#include "host/http/endpoint.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "host/http/body.h"
#include "host/http/cursor.h"
#include "host/http/delivery.h"
#include "host/http/metrics.h"
#include "host/http/index_page.h"
#include "endpoint/openmetrics.h"
#include "endpoint/reply_headers.h"
#include "endpoint/request.h"
#include "view/page.h"
#include "host/locks/waits_page.h"

#include <deltaprof/thread.h>
#include <deltaprof/http.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REPLIES_MAX    128
#define BODY_MAX_BYTES (1u << 20)
#define POLL_NS        1000000  /* time to the next read while a producer is at work and the ring is empty */
#define BUSY_NS        10000000 /* time to the next try while too many producers are at work */

struct deltaprof_http_reply {
    struct dp_http_request request;
    pid_t pid;
    struct dp_http_reply_headers headers;

    char line[160];    /* the text of an error */
    char why[160];     /* the same, if it names something */
    DP_VEC(char) text; /* a whole reply, or the addresses of POST symbol */
    size_t n_sent;

    int64_t window_ns; /* monotonic end of ?seconds=; 0: none */
    struct dp_http_body *body;
    bool has_body, ended;
    bool status_fixed;
    _Atomic bool told; /* the host has read the status already; relaxed: one thread uses the reply */
    int result;

    struct dp_http_delivery delivery;
};

static bool cmdline; /* whether cmdline may be served */
static _Atomic bool started;
static _Atomic unsigned n_replies;

void dp_http_endpoint_init(const struct dp_config *conf)
{
    cmdline = conf->cmdline;
    dp_http_cursor_init(conf->cursor_ttl_ns);
    dp_store_release(&started, true); /* [START] a thread that sees it also sees cmdline */
}

DP_IN_CHILD void dp_http_endpoint_fork_child(void)
{
    dp_store_relaxed(&n_replies, 0);
    dp_http_cursor_fork_child();
    dp_http_body_fork_child();
}

static int append(void *ctx, const void *bytes, size_t n_bytes)
{
    struct deltaprof_http_reply *r = ctx;
    if (!dp_vec_room(&r->text, n_bytes))
        return -ENOMEM;
    memcpy(r->text.at + r->text.n, bytes, n_bytes);
    r->text.n += n_bytes;
    return 0;
}

static void refuse(struct deltaprof_http_reply *r, int status, const char *message)
{
    r->request.page = DP_HTTP_PAGE_ERROR;
    r->request.status = status;
    r->request.message = message;
}

static bool is_of_another_process(struct deltaprof_http_reply *r)
{
    bool is = r->request.pid && r->request.pid != r->pid;
    if (is)
        refuse(r, 404, "pid: this is the endpoint of another process; deltaprof serve answers for all");
    return is;
}

static void begin_profile(struct deltaprof_http_reply *r, const struct deltaprof_http_request *request)
{
    (void)request;
    const struct dp_http_request *q = &r->request;
    const char *message;
    if (is_of_another_process(r))
        return;
    if (!q->head && dp_process_has_seccomp()) {
        refuse(r, 503, "the process installed a seccomp filter: no profile can be made any more");
        return;
    }
    if (dp_http_delivery_is_off(q)) {
        dp_http_request_refuse_off(&r->request, r->pid, r->why, sizeof r->why);
        return;
    }
    int status = dp_http_delivery_begin(&r->delivery, q, &message);
    if (status != 200)
        refuse(r, status, message);
    else if (!q->head && q->seconds)
        r->window_ns = dp_clock_ns() + q->seconds * 1000000000;
}

static void begin_symbol(struct deltaprof_http_reply *r, const struct deltaprof_http_request *request)
{
    bool posted = !strcmp(request->method, "POST");
    const char *text = posted ? request->body : r->request.query;
    size_t n_bytes = posted ? request->n_body_bytes : strlen(text);
    if (n_bytes > BODY_MAX_BYTES)
        refuse(r, 413, "more than 1 MiB of addresses");
    else if (n_bytes && append(r, text, n_bytes))
        refuse(r, 503, "no memory for the addresses");
}

static void begin_waits(struct deltaprof_http_reply *r, const struct deltaprof_http_request *request)
{
    (void)request;
    if (is_of_another_process(r))
        return;
    if (dp_process_has_seccomp())
        refuse(r, 503, "the process installed a seccomp filter: its locks cannot be read any more");
}

static void begin_index(struct deltaprof_http_reply *r, const struct deltaprof_http_request *request)
{
    (void)request;
    dp_http_page_index(cmdline, append, r);
}

static void begin_cmdline(struct deltaprof_http_reply *r, const struct deltaprof_http_request *request)
{
    (void)request;
    if (dp_load_acquire(&started) && !cmdline) /* [START] */
        refuse(r, 404, "cmdline is switched off (cmdline=off)");
    else
        dp_http_page_cmdline(append, r);
}

static void begin_view(struct deltaprof_http_reply *r, const struct deltaprof_http_request *request)
{
    (void)request;
    if (append(r, dp_view_page_before, dp_view_page_before_bytes) ||
        append(r, dp_view_page_after, dp_view_page_after_bytes))
        refuse(r, 503, "no memory for the page");
}

static void begin_metrics(struct deltaprof_http_reply *r, const struct deltaprof_http_request *request)
{
    (void)request;
    if (dp_http_metrics_write(append, r))
        refuse(r, 503, "no memory for the metrics");
}

static int write_profile(struct deltaprof_http_reply *r, dp_pprof_write_fn fn, void *ctx)
{
    return dp_http_delivery_write(&r->delivery, &r->request, fn, ctx);
}

static int write_symbol(struct deltaprof_http_reply *r, dp_pprof_write_fn fn, void *ctx)
{
    return dp_http_page_symbol(r->text.at, r->text.n, fn, ctx);
}

static int write_waits(struct deltaprof_http_reply *r, dp_pprof_write_fn fn, void *ctx)
{
    (void)r;
    return dp_waits_write(fn, ctx);
}

#define TEXT "text/plain; charset=utf-8"
#define HTML "text/html; charset=utf-8"

static const struct page {
    const char *type; /* Content-Type, unless a profile is binary */
    bool needs_start; /* refused before the profiler has started, and while too many replies are under way */
    /* On the host's thread: refuses the request, or appends the reply's text, or prepares `write`. NULL: no step. */
    void (*begin)(struct deltaprof_http_reply *r, const struct deltaprof_http_request *request);
    /* On the producer's thread: writes the reply's body. NULL: the reply is the text. */
    int (*write)(struct deltaprof_http_reply *r, dp_pprof_write_fn fn, void *ctx);
} pages[] = {
    [DP_HTTP_PAGE_INDEX] = {HTML, true, begin_index, NULL},
    [DP_HTTP_PAGE_PROFILE] = {TEXT, true, begin_profile, write_profile},
    [DP_HTTP_PAGE_SYMBOL] = {TEXT, true, begin_symbol, write_symbol},
    [DP_HTTP_PAGE_CMDLINE] = {TEXT, false, begin_cmdline, NULL},
    [DP_HTTP_PAGE_VIEW] = {HTML, false, begin_view, NULL},
    [DP_HTTP_PAGE_WAITS] = {TEXT, true, begin_waits, write_waits},
    [DP_HTTP_PAGE_METRICS] = {DP_OPENMETRICS_TYPE, true, begin_metrics, NULL},
    [DP_HTTP_PAGE_ERROR] = {TEXT, false, NULL, NULL},
};

/* Logs why a profile failed, because the reply does not tell its reader. */
static void log_failure(int err)
{
    static struct dp_log_cause cause;
    if (err == -EPIPE || err == -ECANCELED) /* no fault: the client left, or this is a forked child */
        return;
    dp_log_once(&cause, -err,
                err ? "cannot make a profile for the endpoint: %m; the reply failed" : "profiles are served again");
}

static int produce(void *arg, dp_pprof_write_fn fn, void *ctx)
{
    struct deltaprof_http_reply *r = arg;
    int err = pages[r->request.page].write(r, fn, ctx);
    log_failure(err);
    return err;
}

/*
 * Tells the cursor the outcome and frees the reply. `arrived`: delivered, as defined at the top. Runs on the host's
 * thread, or on the producer's if the host ended the reply first.
 */
static void free_reply(struct deltaprof_http_reply *r, bool arrived)
{
    dp_http_delivery_end(&r->delivery, &r->request, r->ended && !r->result, arrived);
    dp_vec_fini(&r->text);
    dp_mem_unmap(r, sizeof *r);
    dp_sub_relaxed(&n_replies, 1);
}

static void orphaned(void *arg, int result)
{
    struct deltaprof_http_reply *r = arg;
    r->ended = true;
    r->result = result;
    free_reply(r, false);
}

/* While too many producers are at work, a window stays open a little longer; a reply without a window is refused. */
static void start_body(struct deltaprof_http_reply *r)
{
    int err = 0;
    r->body = dp_http_body_start(produce, orphaned, r, &err);
    if (r->window_ns && err == -EBUSY) {
        r->window_ns = dp_clock_ns() + BUSY_NS;
        return;
    }
    if (r->window_ns && err)
        log_failure(err);
    r->window_ns = 0;
    r->ended = err;
    r->result = err;
}

static const char *why_not(int err)
{
    return err == -EBUSY    ? "too many profiles are being made"
           : err == -ENOMEM ? "no memory to make a profile with: raise memory="
                            : "the profile could not be made; the program's log says why";
}

/* An error's line is stored in the reply itself, because there may be no memory for it. */
static void write_line(struct deltaprof_http_reply *r)
{
    dp_vec_clear(&r->text);
    snprintf(r->line, sizeof r->line, "%s\n", r->request.message);
}

static void write_headers(struct deltaprof_http_reply *r)
{
    dp_http_reply_headers_write(&r->headers, &r->request, pages[r->request.page].type, r->delivery.seq, r->pid);
}

/* Decides the status: 503 if the profile failed already and the host has not read the status yet. */
static void fix_status(struct deltaprof_http_reply *r)
{
    int result = r->result;
    r->status_fixed = true;
    if (dp_load_relaxed(&r->told) || (r->body && !dp_http_body_failed(r->body)) || (!r->body && !r->ended))
        return;
    if (r->body)
        dp_http_body_close(r->body, &result); /* the producer has ended */
    r->body = NULL;
    r->has_body = false;
    r->ended = true;
    r->result = result;
    refuse(r, 503, why_not(result));
    write_line(r);
    write_headers(r);
}

/* The reply to the request: an error, a text, or a body that a producer begins now or after the window. */
static void begin(struct deltaprof_http_reply *r, const struct deltaprof_http_request *request, bool is_busy)
{
    struct dp_http_request *q = &r->request;
    dp_http_request_parse(q, request->method, request->target);
    if (pages[q->page].needs_start) {
        if (!dp_load_acquire(&started)) /* [START] */
            refuse(r, 503, "the profiler is not started");
        else if (is_busy)
            refuse(r, 503, "too many replies under way");
    }
    if (pages[q->page].begin)
        pages[q->page].begin(r, request);
    r->has_body = pages[q->page].write && !q->head;
    if (r->has_body && !r->window_ns)
        start_body(r);
    if (r->ended) {
        r->has_body = false;
        refuse(r, 503, why_not(r->result));
    }
    if (q->page == DP_HTTP_PAGE_ERROR)
        write_line(r);
    write_headers(r);
}

int deltaprof_http_begin(const struct deltaprof_http_request *request, struct deltaprof_http_reply **reply)
{
    *reply = NULL;
    if (!request->method || !request->target)
        return -EINVAL;
    int64_t kept = deltaprof_guard_enter();
    bool yielded = dp_mem_yield(true); /* replies must leave the memory that ticks need */
    unsigned before = dp_add_relaxed(&n_replies, 1);
    struct deltaprof_http_reply *r = dp_mem_map(sizeof *r);
    if (r) {
        r->pid = getpid();
        begin(r, request, before >= REPLIES_MAX);
    } else {
        dp_sub_relaxed(&n_replies, 1);
    }
    *reply = r;
    dp_mem_yield(yielded);
    deltaprof_guard_exit(kept);
    return r ? 0 : -ENOMEM;
}

int64_t deltaprof_http_wait_ns(struct deltaprof_http_reply *r)
{
    if (!r->has_body || r->ended || r->pid != getpid())
        return 0;
    if (r->window_ns) {
        int64_t left = r->window_ns - dp_clock_ns();
        if (left > 0)
            return left;
        int64_t kept = deltaprof_guard_enter();
        start_body(r);
        deltaprof_guard_exit(kept);
        if (r->window_ns)
            return BUSY_NS;
    }
    if (!r->status_fixed) {
        if (!r->ended && !dp_http_body_is_status_fixed(r->body))
            return POLL_NS;
        int64_t kept = deltaprof_guard_enter();
        fix_status(r);
        deltaprof_guard_exit(kept);
        if (!r->has_body)
            return 0;
    }
    return r->ended || dp_http_body_ready(r->body) ? 0 : POLL_NS;
}

int deltaprof_http_status(const struct deltaprof_http_reply *r)
{
    dp_store_relaxed(&((struct deltaprof_http_reply *)r)->told, true);
    return r->request.status;
}

int deltaprof_http_header(const struct deltaprof_http_reply *r, size_t i, const char **name, const char **value)
{
    dp_store_relaxed(&((struct deltaprof_http_reply *)r)->told, true);
    if (i >= r->headers.n)
        return 1;
    *name = r->headers.at[i].name;
    *value = r->headers.at[i].value;
    return 0;
}

ssize_t deltaprof_http_read(struct deltaprof_http_reply *r, void *buf, size_t n_bytes)
{
    if (r->request.head)
        return 0;
    if (r->has_body && r->pid == getpid() && deltaprof_http_wait_ns(r) > 0)
        return -EAGAIN;
    if (!r->has_body) {
        bool line = r->request.page == DP_HTTP_PAGE_ERROR;
        const char *text = line ? r->line : r->text.at;
        size_t n = (line ? strlen(text) : r->text.n) - r->n_sent;
        if (n > n_bytes)
            n = n_bytes;
        if (n)
            memcpy(buf, text + r->n_sent, n);
        r->n_sent += n;
        return (ssize_t)n;
    }
    if (r->pid != getpid())
        return -ECANCELED;
    if (r->ended)
        return r->result;
    ssize_t n = dp_http_body_read(r->body, buf, n_bytes);
    if (n > 0 || n == -EAGAIN)
        return n;
    r->ended = true;
    r->result = (int)n;
    return n;
}

void deltaprof_http_end(struct deltaprof_http_reply *r, int delivered)
{
    if (!r)
        return;
    int64_t kept = deltaprof_guard_enter();
    bool yielded = dp_mem_yield(true); /* replies must leave the memory that ticks need */
    if (r->pid != getpid()) {
        dp_vec_fini(&r->text);
        dp_mem_unmap(r, sizeof *r);
    } else {
        bool arrived = delivered && r->ended && !r->result;
        int result;
        if (!r->body) {
            free_reply(r, arrived);
        } else if (dp_http_body_close(r->body, &result)) {
            r->ended = true;
            r->result = result;
            free_reply(r, arrived);
        }
    }
    dp_mem_yield(yielded);
    deltaprof_guard_exit(kept);
}
