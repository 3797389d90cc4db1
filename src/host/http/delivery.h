/* SPDX-License-Identifier: MIT */
/*
 * host/http/delivery.h - delivers one profile to one client: takes the baseline, writes, and then moves the baseline or
 * leaves it.
 *
 * Zero: holds nothing. Context: any thread, outside hooks, one at a time.
 */
#pragma once

#include "host/http/cursor.h"
#include "endpoint/request.h"
#include "host/report/profile.h"

struct dp_http_delivery {
    struct dp_consumer *consumer;  /* the cursor's, or one for this profile only; NULL: no profile */
    struct dp_http_cursor *cursor; /* NULL: none */
    uint64_t seq;                  /* of the reply, for X-Deltaprof-Seq */
    /* Of a kind that is recorded only between window_begin and the write; NULL: of another. */
    const struct dp_kind_source *window;
};

/* Whether the kind is off, and nothing was recorded of it; not for a window that turns it on. */
bool dp_http_delivery_is_off(const struct dp_http_request *);
/*
 * Takes the consumer that the request needs; none for HEAD. Returns 200, or the status of a refusal with *message; then
 * nothing is held. The settings are read when the write begins.
 */
int dp_http_delivery_begin(struct dp_http_delivery *, const struct dp_http_request *, const char **message);

/* Writes the profile. Returns as dp_consumer_write does; fn's error too. */
int dp_http_delivery_write(struct dp_http_delivery *, const struct dp_http_request *, dp_pprof_write_fn fn, void *ctx);

/* Tells the cursor the outcome and frees all. written: the write succeeded; arrived: and its bytes reached the client.
 */
void dp_http_delivery_end(struct dp_http_delivery *, const struct dp_http_request *, bool written, bool arrived);
