/* SPDX-License-Identifier: MIT */
/*
 * host/http/delivery.c - writes one profile for a client, and moves its baseline or leaves it. A delta uses its
 * cursor's consumer, which stays taken until the end; a cumulative profile or a window gets a separate consumer. Only
 * bytes that arrived move a baseline: a failed write has abandoned its rows already; a lost one abandons them here; one
 * that the client will acknowledge leaves them open.
 */
#include "host/http/delivery.h"

#include "host/agent/agent.h"
#include "host/heap/live_blocks.h"
#include "host/report/kind_source.h"
#include "host/report/recorded.h"
#include "host/report/settings.h"
#include "host/report/text_profile.h"

#include <errno.h>

/* The present settings, changed by the request. */
static void settings(struct dp_config *conf, const struct dp_http_request *q)
{
    dp_report_settings(conf);
    if (q->has_types)
        conf->types = q->types;
    if (q->has_max_samples)
        conf->max_samples = q->max_samples;
    if (q->has_age)
        conf->age = q->age;
    if (q->has_symbolize) {
        conf->symbolize = q->symbolize;
        dp_config_mark_given(conf, "symbolize");
    }
}

static struct dp_http_cursor_key key_of(const struct dp_http_request *q)
{
    return (struct dp_http_cursor_key){q->kind, q->locks, q->cursor};
}

static int begin_own(struct dp_http_delivery *d, const struct dp_http_request *q, const struct dp_config *conf,
                     const char **message)
{
    d->consumer = dp_consumer_new(q->kind, NULL);
    if (!d->consumer) {
        *message = "no memory for a baseline: raise memory=";
        return 503;
    }
    dp_consumer_filter(d->consumer, q->locks);
    dp_consumer_set_default_type(d->consumer, q->profile->default_type);
    const struct dp_kind_source *source = dp_kind_source_of(q->kind);
    if (q->seconds && source->window_begin) {
        d->window = source;
        source->window_begin();
        dp_report_recorded_window(q->kind, 1);
        if (source->needs_agent)
            dp_agent_watch();
    }
    if (q->seconds) {
        dp_consumer_configure(d->consumer, conf);
        dp_consumer_skip(d->consumer);
    }
    return 200;
}

static int begin_cursor(struct dp_http_delivery *d, const struct dp_http_request *q, const char **message)
{
    int err = 0;
    struct dp_http_cursor_key key = key_of(q);
    struct dp_http_cursor *cursor = dp_http_cursor_lock(&key, q->from_now, &err);
    if (!cursor) {
        *message = err == -EBUSY    ? "a reply of this cursor is under way; take another cursor, or come again"
                   : err == -ENOSPC ? "too many cursors have a reply under way"
                                    : "no memory for a baseline: raise memory=";
        return 503;
    }
    if (dp_http_cursor_next(cursor, q->acknowledges, q->after, &d->seq)) {
        dp_http_cursor_unlock(cursor);
        *message = "after: neither the last reply that arrived nor the last that was sent; ask without it";
        return 409;
    }
    d->cursor = cursor;
    d->consumer = dp_http_cursor_consumer(cursor);
    return 200;
}

bool dp_http_delivery_is_off(const struct dp_http_request *q)
{
    struct dp_config conf;
    bool is_window = q->seconds && dp_kind_source_of(q->kind)->window_begin; /* which turns it on */
    dp_report_settings(&conf);
    return !is_window && !dp_config_kind_is_on(&conf, q->kind) && dp_kind_source_is_empty(q->kind);
}

int dp_http_delivery_begin(struct dp_http_delivery *d, const struct dp_http_request *q, const char **message)
{
    struct dp_config conf;
    settings(&conf, q);
    if (conf.age && !dp_heap_live_blocks_has_births()) {
        *message = "age: with heap_rate=1 ages are known only if the program was started with age=on";
        return 400;
    }
    if (q->head) {
        struct dp_http_cursor_key key = key_of(q);
        d->seq = q->profile->is_delta ? dp_http_cursor_peek(&key) : 0;
        return 200;
    }
    return q->profile->is_delta ? begin_cursor(d, q, message) : begin_own(d, q, &conf, message);
}

static void end_window(struct dp_http_delivery *d, unsigned kind)
{
    if (d->window) {
        d->window->window_end();
        dp_report_recorded_window(kind, -1);
    }
    d->window = NULL;
}

int dp_http_delivery_write(struct dp_http_delivery *d, const struct dp_http_request *q, dp_pprof_write_fn fn, void *ctx)
{
    struct dp_config conf;
    settings(&conf, q);
    if (q->text)
        return dp_report_text_write_profile(q->kind, q->locks, conf.symbolize, fn, ctx);
    end_window(d, q->kind);
    dp_consumer_configure(d->consumer, &conf);
    unsigned flags =
        (q->profile->is_delta || q->seconds ? 0 : DP_WRITE_CUMULATIVE) | DP_WRITE_RESIDENT | DP_WRITE_SCRAPED;
    return dp_consumer_write(d->consumer, flags, fn, ctx, NULL);
}

void dp_http_delivery_end(struct dp_http_delivery *d, const struct dp_http_request *q, bool written, bool arrived)
{
    end_window(d, q->kind);
    if (d->cursor) {
        if (written)
            dp_http_cursor_end_write(d->cursor, d->seq,
                                     q->acknowledges ? DP_CURSOR_OPEN
                                     : arrived       ? DP_CURSOR_ARRIVED
                                                     : DP_CURSOR_LOST);
        dp_http_cursor_unlock(d->cursor);
    } else {
        dp_consumer_free(d->consumer);
    }
    *d = (struct dp_http_delivery){0};
}
