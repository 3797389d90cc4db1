/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/cursors.h - cursors: each has the deltas that a client of the endpoint has not received yet.
 *
 * Each delta that is read is added to all cursors of its kind and process. A reply detaches the deltas of its cursor.
 * If the reply is lost, they are put back. One thread at a time.
 */
#pragma once

#include "endpoint/request.h"
#include "tool/serve/workers.h"

enum { DP_SERVE_CURSORS_MOST = 64 };

struct dp_serve_deltas {
    DP_VEC(struct dp_serve_delta *) at;
    int64_t from_ns; /* the begin of the window, ns of Unix time; 0: as in the deltas */
};

struct dp_serve_cursor {
    char name[DP_CURSOR_NAME_MAX + 1];
    unsigned kind;
    pid_t pid;      /* 0: all */
    bool is_window; /* for one reply with ?seconds=; get does not find it by name */
    uint64_t first; /* the number before that of its first reply; above all numbers of an earlier server */
    uint64_t seq;   /* of the last reply */
    bool is_sent;   /* reply seq is not acknowledged yet */
    int64_t used_ns;
    struct dp_serve_deltas pending, sent; /* sent: in that reply; it can have none */
};

struct dp_serve_cursors {
    DP_VEC(struct dp_serve_cursor *) at;
};

#define DP_SERVE_CURSOR_PAGE "view-" /* names of cursors of pages in browsers begin so */

/*
 * Finds a cursor, or creates one and first removes cursors that were not used for a day; where DP_SERVE_CURSORS_MOST
 * are there, the one of a page that was not used for longest, or else of another client that did not ask for ten
 * minutes. NULL: no memory, or all are in use.
 */
struct dp_serve_cursor *dp_serve_cursors_get(struct dp_serve_cursors *, const char *name, unsigned kind, pid_t pid,
                                             bool is_window, bool *is_new);
struct dp_serve_cursor *dp_serve_cursors_find(const struct dp_serve_cursors *, const char *name, unsigned kind,
                                              pid_t pid); /* NULL: there is none */
/* Adds a delta to all cursors of its kind and process. A dp_serve_delta_fn, with struct dp_serve_cursors as ctx. */
int dp_serve_cursors_add(void *cursors, struct dp_serve_delta *);
/* Adds a delta to one cursor. The same, with struct dp_serve_cursor as ctx. */
int dp_serve_cursor_add(void *cursor, struct dp_serve_delta *);
/* Whether reply number `after` is of an earlier cursor of this name, which ended unused, or with its server. */
bool dp_serve_cursor_is_earlier(const struct dp_serve_cursor *, uint64_t after);
/*
 * The client has received replies up to number `after`, 0: none: the last reply, or only the one before. In the second
 * case the deltas of the last reply are pending again. False: `after` is another number, or no memory.
 */
bool dp_serve_cursor_acknowledge(struct dp_serve_cursor *, uint64_t after);
/* No reply waits for an acknowledgement any more. */
void dp_serve_cursor_clear_sent(struct dp_serve_cursor *);
/* Moves the pending deltas into *taken. The next window begins now. */
void dp_serve_cursor_detach(struct dp_serve_cursor *, struct dp_serve_deltas *taken, int64_t now_ns);
/* Puts these deltas back, before those that were added meanwhile. 0 or -ENOMEM. */
int dp_serve_cursor_put_back(struct dp_serve_cursor *, struct dp_serve_deltas *taken);
void dp_serve_cursors_remove(struct dp_serve_cursors *, struct dp_serve_cursor *);
void dp_serve_deltas_clear(struct dp_serve_deltas *);
void dp_serve_cursors_fini(struct dp_serve_cursors *);
