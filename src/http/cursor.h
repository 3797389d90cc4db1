/* SPDX-License-Identifier: MIT */
/*
 * http/cursor.h - named baselines: who asks for a delta, and what it is known to have had.
 *
 * Every reply of a cursor has a sequence number. It is settled when its delivery is known; a client that asks with
 * after=N settles its last reply itself: N is what it has, and nothing else counts. Context: any thread above the
 * waterline; a cursor that was taken is its taker's alone.
 */
#pragma once

#include "report/profile.h"

#include <stdbool.h>
#include <stdint.h>

struct dp_cursor;

/* ttl_ns: how long a named cursor outlives its last use. */
void dp_cursor_init(int64_t ttl_ns);

/*
 * The cursor of this kind and name ("" is the shared default, which never expires), made when new, perhaps in place of
 * the idle one that was used least recently; from_now: a new one begins now, not at start. Takes it until
 * dp_cursor_release. NULL and *error: -EBUSY, a reply is under way; -ENOSPC, DP_CURSORS_MAX named cursors have replies
 * under way; -ENOMEM.
 */
#define DP_CURSORS_MAX 96 /* beside the default ones */
struct dp_cursor *dp_cursor_take(unsigned kind, const char *name, bool from_now, int *error);
void dp_cursor_release(struct dp_cursor *);

struct dp_consumer *dp_cursor_consumer(struct dp_cursor *);

/*
 * Settles what the last reply left open: acknowledged, it is what the client says it has; not, it was lost. Then
 * gives the next reply's number. -ESTALE: `after` is neither the last settled nor the last sent; nothing changes.
 */
int dp_cursor_next(struct dp_cursor *, bool acknowledges, uint64_t after, uint64_t *seq);

/* The write of reply seq has ended: arrived, lost, or known only to the client. */
enum dp_cursor_fate { DP_CURSOR_ARRIVED, DP_CURSOR_LOST, DP_CURSOR_OPEN };
void dp_cursor_settle(struct dp_cursor *, uint64_t seq, enum dp_cursor_fate fate);

/* The number of the last reply that is known to have arrived, 0 for none or no such cursor: for HEAD, which makes none.
 */
uint64_t dp_cursor_peek(unsigned kind, const char *name);

/* The parent's cursors are its own. Only stores. */
void dp_cursor_fork_child(void);
