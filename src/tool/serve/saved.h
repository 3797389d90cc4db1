/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/saved.h - keeps the cursors in the file `cursors` of the directory of tables, so that they go on in a
 * later server, also if this one is killed.
 *
 * The file begins with the state at one moment: what each cursor has not sent, or sent without an answer, and of each
 * process a profile since its start. While the server runs, what changes the state is appended before it has any effect
 * outside: each delta before its process's table is deleted, each reply before its first byte. It does so from the
 * start on, so that what happens before the first cursor is known to that cursor, whichever server it asks. A later
 * server reads all of it; what it then reads of a process begins at the start of the process, and that profile is
 * subtracted.
 *
 * Context: under the lock of the family.
 */
#pragma once

#include "tool/serve/cursors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dp_serve_family;

/* Zeroed: nothing is kept. */
struct dp_serve_saved {
    bool is_wanted;          /* set by the caller: the directory has a later server */
    int lock;                /* likewise: of the directory */
    bool keeps_tables;       /* see dp_serve_saved_keep_tables */
    bool is_open;            /* the file goes on at fd */
    int fd, dir;             /* dir: the directory, once the file was written */
    int err;                 /* with which it was ended; it was said */
    size_t n_state, n_bytes; /* of the state, and of all */
    int64_t retry_ns;        /* after an error: when it is written again */
    unsigned n_flying;       /* replies that were begun and have not ended: no state can be written */
};

/*
 * Reads the file, if there is one, before the first look at the directory. Returns 1; 0: there is none; or a negative
 * errno: no cursor goes on.
 */
int dp_serve_saved_read(struct dp_serve_family *, const char *directory);
/*
 * Writes the state to a new file, and then goes on in that. is_last: the server ends, and nothing follows. Returns 1;
 * 0: there is no cursor and was no process, and no file; or a negative errno: no file.
 */
int dp_serve_saved_write(struct dp_serve_family *, bool is_last);
/* If keeps: while there is a file, processes that end without a server leave their tables to the next one. */
void dp_serve_saved_keep_tables(struct dp_serve_saved *, bool keeps);
/* Writes the state again once much was appended, or some time after that failed. */
void dp_serve_saved_limit(struct dp_serve_family *);

/* Appends a delta, and adds it to all cursors. A dp_serve_delta_fn, with struct dp_serve_family as ctx. */
int dp_serve_saved_add(void *family, struct dp_serve_delta *);
/* Appends a cursor as it is: a new one, or one that begins anew. */
void dp_serve_saved_cursor(struct dp_serve_family *, const struct dp_serve_cursor *);
/*
 * Appends that reply c->seq takes the pending deltas of a cursor; acknowledges: it waits for an answer. went_back:
 * those of the reply before came back first, else they were received.
 */
void dp_serve_saved_detach(struct dp_serve_family *, const struct dp_serve_cursor *c, bool acknowledges,
                           bool went_back);

/* What became of the deltas of reply number seq: they were received, they wait for an answer, or they came back. */
enum dp_serve_saved_end { DP_SERVE_SAVED_RECEIVED, DP_SERVE_SAVED_SENT, DP_SERVE_SAVED_BACK };
/* The cursor NULL: it was removed. */
void dp_serve_saved_settle(struct dp_serve_family *, const struct dp_serve_cursor *, uint64_t seq,
                           enum dp_serve_saved_end);
/* Closes the file. */
void dp_serve_saved_fini(struct dp_serve_saved *);
