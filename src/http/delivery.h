/* SPDX-License-Identifier: MIT */
/*
 * http/delivery.h - one profile on its way to one client: whose baseline it stands on, and what becomes of that.
 *
 * Zero is one that holds nothing. Context: any thread above the waterline, one at a time.
 */
#pragma once

#include "http/cursor.h"
#include "http/request.h"
#include "report/profile.h"

struct dp_delivery {
    struct dp_consumer *consumer; /* the cursor's, or one for this profile alone; NULL: no profile */
    struct dp_cursor *cursor;     /* NULL: none */
    uint64_t seq;                 /* of the reply, for X-Deltaprof-Seq */
};

/*
 * Takes what the request needs: a HEAD nothing. 200, or the status that refuses with *message, and then nothing is
 * held. The settings are read when the write begins.
 */
int dp_delivery_begin(struct dp_delivery *, const struct dp_request *, const char **message);

/* Writes the profile. 0, or what dp_consumer_write says; fn's error too. */
int dp_delivery_write(struct dp_delivery *, const struct dp_request *, dp_write_fn fn, void *ctx);

/* Settles and gives back. written: the write ended well; arrived: and its bytes reached the client. */
void dp_delivery_end(struct dp_delivery *, const struct dp_request *, bool written, bool arrived);
