/* SPDX-License-Identifier: MIT */
/*
 * host/http/cursor.h - named baselines ("cursors"): which profile each client of a delta has received last.
 *
 * Every reply of a cursor has a sequence number. It is open while only the client knows whether it arrived. A client
 * that sends after=N says so itself: N is the last reply that it has. Context: any thread, outside hooks; between
 * lock and unlock one caller alone uses a cursor.
 */
#pragma once

#include "host/report/profile.h"

#include <stdbool.h>
#include <stdint.h>

struct dp_http_cursor;

/* ttl_ns: time to live of a named cursor after its last use. */
void dp_http_cursor_init(int64_t ttl_ns);

/*
 * A cursor's key. Each filter has cursors of its own, so that what one filter leaves out is still pending for the
 * others.
 */
struct dp_http_cursor_key {
    unsigned kind;
    unsigned locks;   /* bit k: only lock kind k; 0: all */
    const char *name; /* "": the shared default, which never expires if it has no filter */
};

/*
 * Locks the cursor of this key until dp_http_cursor_unlock. Makes it if it is new, perhaps instead of the least
 * recently used idle one; from_now: a new one begins now, not at start. NULL and *err: -EBUSY, another reply uses it;
 * -ENOSPC, DP_CURSORS_MAX named cursors are in use; -ENOMEM.
 */
#define DP_CURSORS_MAX 96 /* not counting the default ones */
struct dp_http_cursor *dp_http_cursor_lock(const struct dp_http_cursor_key *, bool from_now, int *err);
void dp_http_cursor_unlock(struct dp_http_cursor *);

struct dp_consumer *dp_http_cursor_consumer(struct dp_http_cursor *);

/*
 * Closes the last reply, if it is open: it arrived if the client acknowledges it, else it is lost. Then gives the next
 * reply's number. -ESTALE: `after` is neither the last that arrived nor the last sent; nothing changes.
 */
int dp_http_cursor_next(struct dp_http_cursor *, bool acknowledges, uint64_t after, uint64_t *seq);

/* Says how the write of reply seq ended: arrived, lost, or only the client knows. */
enum dp_http_cursor_outcome { DP_CURSOR_ARRIVED, DP_CURSOR_LOST, DP_CURSOR_OPEN };
void dp_http_cursor_end_write(struct dp_http_cursor *, uint64_t seq, enum dp_http_cursor_outcome outcome);

/*
 * The number of the last reply that is known to have arrived; 0: none, or no such cursor. For HEAD, which makes no
 * cursor.
 */
uint64_t dp_http_cursor_peek(const struct dp_http_cursor_key *);

/*
 * Calls fn for each cursor, with the end of its last delivered profile (dp_clock_ns). Under the lock: fn only stores.
 */
void dp_http_cursor_visit(void (*fn)(void *ctx, const struct dp_http_cursor_key *, int64_t covered_ns), void *ctx);

/* Drops the parent's cursors in a forked child. Only stores. */
void dp_http_cursor_fork_child(void);
