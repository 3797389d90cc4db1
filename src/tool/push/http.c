/* SPDX-License-Identifier: MIT */
/*
 * tool/push/http.c - one POST through libcurl.
 *
 * How it decides whether a request was delivered: a status line says what the receiver did. Without a status line, a
 * request whose last byte was not written to the socket was not accepted, because its length was announced. With all
 * bytes written and no status line, delivery is unknown.
 */
#include "tool/push/http.h"

#include "tool/push/wakeups.h"
#include "tool/push/headers.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_BYTES   ((size_t)65536)
#define STOP_GRACE_MS 2000

struct dp_push_http {
    struct dp_push_http_options options;
    CURL *curl;
    char failure[CURL_ERROR_SIZE];

    /* The request under way. */
    const struct dp_push_body *body;
    size_t n_given; /* bytes of the body that libcurl has taken */
    dp_push_leaving_fn leaving;
    void *ctx; /* of leaving */
    int err;   /* that it returned */
    struct dp_push_bytes reply;
    int64_t retry_after_s; /* 0: the reply has no such number */
};

/* Callback: gives libcurl the next bytes of the body. Before the last ones, `leaving` records that they are sent. */
static size_t send_body(char *to, size_t size, size_t n_items, void *http)
{
    struct dp_push_http *h = http;
    size_t n = h->body->bytes.n - h->n_given, room = size * n_items;
    if (n > room)
        n = room;
    else if (h->n_given < h->body->bytes.n && (h->err = h->leaving(h->ctx)))
        return CURL_READFUNC_ABORT;
    memcpy(to, h->body->bytes.at + h->n_given, n);
    h->n_given += n;
    return n;
}

static size_t receive_reply(char *bytes, size_t size, size_t n_items, void *http)
{
    struct dp_push_http *h = http;
    size_t n = size * n_items, room = REPLY_BYTES - h->reply.n;
    if (dp_push_bytes_append(&h->reply, bytes, n < room ? n : room))
        return 0;
    return n; /* bytes that do not fit are dropped */
}

/*
 * Callback: reads Retry-After if it is a number. libcurl, which reads it too, ignores a number beyond 64 bits, and is
 * used for a date only.
 */
static size_t receive_header(char *bytes, size_t size, size_t n_items, void *http)
{
    static const char name[] = "Retry-After:";
    struct dp_push_http *h = http;
    size_t n = size * n_items, i = sizeof name - 1;
    if (n < i || strncasecmp(bytes, name, i))
        return n;
    int64_t number = 0;
    while (i < n && (bytes[i] == ' ' || bytes[i] == '\t'))
        i++;
    for (; i < n && bytes[i] >= '0' && bytes[i] <= '9'; i++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, bytes[i] - '0', &number))
            number = INT64_MAX / 20; /* large, also after another digit */
    while (i < n && strchr(" \t\r\n", bytes[i]))
        i++;
    h->retry_after_s = i == n ? number : 0;
    return n;
}

/* Callback: once the process was asked to end, a request ends that has run for longer than STOP_GRACE_MS. */
static int progress(void *http, curl_off_t all_in, curl_off_t in, curl_off_t all_out, curl_off_t out)
{
    const struct dp_push_http *h = http;
    curl_off_t ran_us = 0;
    (void)all_in, (void)in, (void)all_out, (void)out;
    if (!dp_push_events_stopping())
        return 0;
    curl_easy_getinfo(h->curl, CURLINFO_TOTAL_TIME_T, &ran_us);
    return ran_us / 1000 > STOP_GRACE_MS;
}

struct dp_push_http *dp_push_http_new(const struct dp_push_http_options *options, char *why, size_t n_why)
{
    struct dp_push_http *h = calloc(1, sizeof *h);
    if (!h || curl_global_init(CURL_GLOBAL_DEFAULT) || !(h->curl = curl_easy_init())) {
        snprintf(why, n_why, "libcurl cannot start");
        free(h);
        return NULL;
    }
    h->options = *options;
    long total_ms = (long)(options->timeout_ns / 1000000), connect_ms = total_ms < 10000 ? total_ms : 10000;
    CURL *curl = h->curl;
    curl_easy_setopt(curl, CURLOPT_URL, options->address);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, connect_ms); /* the look-up of the name included */
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, total_ms);
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L); /* does not wait for a resolver that hangs */
#endif
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "deltaprof");
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, send_body);
    curl_easy_setopt(curl, CURLOPT_READDATA, h);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive_reply);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, h);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, receive_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, h);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, h);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, h->failure);
    if (options->ca_file)
        curl_easy_setopt(curl, CURLOPT_CAINFO, options->ca_file);
    return h;
}

void dp_push_http_free(struct dp_push_http *h)
{
    if (!h)
        return;
    curl_easy_cleanup(h->curl);
    dp_vec_fini(&h->reply);
    free(h);
}

/* ---- headers ---------------------------------------------------------------------------------------------------- */

static int add_header(struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*list, text);
    if (longer)
        *list = longer;
    return longer ? 0 : -ENOMEM;
}

/* Where dp_push_headers_read and dp_push_headers_token add what they read. */
struct adding {
    struct dp_push_http *http;
    struct curl_slist **list;
};

static int add_header_of_file(void *ctx, const char *line)
{
    return add_header(((struct adding *)ctx)->list, line);
}

/* A token is sent as a bearer token, unless it names its scheme or is USER:PASSWORD. */
static int add_token(void *ctx, const char *line)
{
    struct adding *to = ctx;
    char header[DP_PUSH_HEADER_BYTES + 32];
    bool has_scheme = !strncasecmp(line, "Basic ", 6) || !strncasecmp(line, "Bearer ", 7);
    if (!has_scheme && strchr(line, ':')) {
        curl_easy_setopt(to->http->curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        return curl_easy_setopt(to->http->curl, CURLOPT_USERPWD, line) ? -ENOMEM : 0;
    }
    curl_easy_setopt(to->http->curl, CURLOPT_USERPWD, NULL);
    snprintf(header, sizeof header, "Authorization: %s%s", has_scheme ? "" : "Bearer ", line);
    return add_header(to->list, header);
}

static int add_headers(struct dp_push_http *h, struct curl_slist **list, struct dp_push_reply *reply)
{
    char line[128];
    int err = add_header(list, "Expect:"); /* no pause before the body */
    snprintf(line, sizeof line, "Content-Type: %s", h->body->type);
    err = err ? err : add_header(list, line);
    snprintf(line, sizeof line, "Idempotency-Key: \"%s\"", h->body->id);
    err = err ? err : add_header(list, line);
    if (!err && h->body->is_gzipped)
        err = add_header(list, "Content-Encoding: gzip");
    struct adding to = {h, list};
    if (!err && h->options.header_file)
        err = dp_push_headers_read(h->options.header_file, add_header_of_file, &to, reply->why, sizeof reply->why);
    if (!err && h->options.token_file)
        err = dp_push_headers_token(h->options.token_file, add_token, &to, reply->why, sizeof reply->why);
    return err;
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

/* Only a status that says the profile is at fault refuses it; after any other one it is sent again later. */
static enum dp_push_verdict verdict_of_status(long status)
{
    if (status / 100 == 2)
        return DP_PUSH_TAKEN;
    return status == 400 || status == 413 || status == 422 ? DP_PUSH_NEVER : DP_PUSH_LATER;
}

/* Fills in the reply after the request, by the rules at the top of this file. */
static void judge_reply(struct dp_push_http *h, const struct dp_push_target *target, CURLcode code,
                        struct dp_push_reply *reply)
{
    curl_off_t n_sent = 0, retry_after = 0;
    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &reply->status);
    curl_easy_getinfo(h->curl, CURLINFO_SIZE_UPLOAD_T, &n_sent);
    curl_easy_getinfo(h->curl, CURLINFO_RETRY_AFTER, &retry_after);
    reply->retry_after_s = h->retry_after_s ? h->retry_after_s : retry_after;
    if (reply->status >= 200) {
        reply->verdict = verdict_of_status(reply->status);
        struct dp_push_words words = {(const char *)h->reply.at, h->reply.n}, why;
        int64_t n_rejected =
            reply->verdict == DP_PUSH_TAKEN ? dp_push_body_rejected(target, h->reply.at, h->reply.n, &why) : 0;
        if (n_rejected) {
            reply->verdict = DP_PUSH_NEVER;
            words = why;
        }
        int n_words = words.n_bytes < 200 ? (int)words.n_bytes : 200;
        snprintf(reply->why, sizeof reply->why, "status %ld%s%s%.*s", reply->status,
                 n_rejected ? ", but it rejected profiles" : "", n_words ? ": " : "", n_words, n_words ? words.at : "");
        return;
    }
    bool is_complete = h->n_given == h->body->bytes.n && (size_t)n_sent >= h->body->bytes.n;
    reply->verdict = is_complete ? DP_PUSH_UNKNOWN : DP_PUSH_LATER;
    snprintf(reply->why, sizeof reply->why, "%s",
             code == CURLE_ABORTED_BY_CALLBACK ? "the pusher was asked to end before an answer came"
             : *h->failure                     ? h->failure
                                               : curl_easy_strerror(code));
}

int dp_push_http_send(struct dp_push_http *h, const struct dp_push_target *target, const struct dp_push_body *body,
                      dp_push_leaving_fn leaving, void *ctx, struct dp_push_reply *reply)
{
    struct curl_slist *headers = NULL;
    *reply = (struct dp_push_reply){.verdict = DP_PUSH_LATER};
    h->body = body;
    h->n_given = 0;
    h->leaving = leaving;
    h->ctx = ctx;
    h->err = 0;
    h->retry_after_s = 0;
    *h->failure = 0;
    dp_vec_clear(&h->reply);
    int err = add_headers(h, &headers, reply);
    if (!err) {
        curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(h->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->bytes.n);
        CURLcode code = curl_easy_perform(h->curl);
        err = h->err;
        if (!err)
            judge_reply(h, target, code, reply);
        curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, NULL);
    }
    curl_slist_free_all(headers);
    return err;
}
