/* SPDX-License-Identifier: MIT */
/* endpoint/reply_headers.c - chooses the headers of a reply by its request and status, as Go's net/http/pprof does. */
#include "endpoint/reply_headers.h"

#include "view/page.h"

#include <stdio.h>
#include <string.h>

static void add(struct dp_http_reply_headers *h, const char *name, const char *value)
{
    if (h->n < DP_REPLY_HEADERS) {
        h->at[h->n].name = name;
        h->at[h->n++].value = value;
    }
}

void dp_http_reply_headers_write(struct dp_http_reply_headers *h, const struct dp_http_request *q, const char *type,
                                 uint64_t seq, pid_t pid)
{
    h->n = 0;
    bool binary = q->page == DP_HTTP_PAGE_PROFILE && !q->text;
    add(h, "Content-Type", binary ? "application/octet-stream" : type);
    add(h, "X-Content-Type-Options", "nosniff");
    add(h, "Cache-Control", "no-store");
    if (q->page == DP_HTTP_PAGE_VIEW)
        add(h, "Content-Security-Policy", dp_view_page_policy);
    if (binary) {
        snprintf(h->disposition, sizeof h->disposition, "attachment; filename=\"%s.pprof.gz\"", q->profile->name);
        add(h, "Content-Disposition", h->disposition);
    }
    if (q->page == DP_HTTP_PAGE_ERROR) {
        add(h, "X-Go-Pprof", "1");
        if (q->status == 503)
            add(h, "Retry-After", "1");
        if (q->status == 405)
            add(h, "Allow", strstr(q->message, "POST") ? "GET, HEAD, POST" : "GET, HEAD");
        if (q->status == 301)
            add(h, "Location", "pprof/");
    }
    snprintf(h->seq, sizeof h->seq, "%llu", (unsigned long long)seq);
    snprintf(h->pid, sizeof h->pid, "%d", (int)pid);
    add(h, "X-Deltaprof-Seq", h->seq);
    add(h, "X-Deltaprof-Pid", h->pid);
}
