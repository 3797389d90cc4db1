/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/cursors.h - what each client of the endpoint has not taken yet.
 *
 * A delta that was read belongs to all cursors of its kind. A client's reply takes what its cursor has; if the reply is
 * lost, that comes back. One thread at a time.
 */
#pragma once

#include "endpoint/request.h"
#include "tool/serve/workers.h"

enum { DP_SERVE_CURSORS_MOST = 64 };

struct dp_serve_deltas {
    DP_VEC(struct dp_serve_delta *) at;
    int64_t from_ns; /* the begin of the window, ns of Unix time; 0: the processes' own */
};

struct dp_serve_cursor {
    char name[DP_CURSOR_NAME_MAX + 1];
    unsigned kind;
    pid_t pid;      /* 0: all */
    bool is_window; /* of one reply: cannot be found by name */
    uint64_t seq;   /* of the last reply */
    int64_t used_ns;
    struct dp_serve_deltas pending, sent; /* sent: of reply seq, which is not acknowledged */
};

struct dp_serve_cursors {
    DP_VEC(struct dp_serve_cursor *) at;
};

/* NULL: no memory, or DP_SERVE_CURSORS_MOST are in use. A cursor that was not used for a day makes room. */
struct dp_serve_cursor *dp_serve_cursors_get(struct dp_serve_cursors *, const char *name, unsigned kind, pid_t pid,
                                             bool is_window, bool *is_new);
/* A dp_serve_delta_fn on the cursors. */
int dp_serve_cursors_add(void *cursors, struct dp_serve_delta *);
/* The same on one cursor. */
int dp_serve_cursor_add(void *cursor, struct dp_serve_delta *);
/* The client has reply `after`, or none of it. False: that is neither the last reply nor the one before it. */
bool dp_serve_cursor_acknowledge(struct dp_serve_cursor *, uint64_t after);
/* Moves what is pending into *taken, and the window's begin to now. */
void dp_serve_cursor_detach(struct dp_serve_cursor *, struct dp_serve_deltas *taken, int64_t now_ns);
/* Puts it back before what came meanwhile. 0 or -ENOMEM. */
int dp_serve_cursor_put_back(struct dp_serve_cursor *, struct dp_serve_deltas *taken);
void dp_serve_cursors_remove(struct dp_serve_cursors *, struct dp_serve_cursor *);
void dp_serve_deltas_clear(struct dp_serve_deltas *);
void dp_serve_cursors_fini(struct dp_serve_cursors *);
