/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/workers.h - the processes whose tables lie in a directory, and what they did since the last look.
 *
 * A process is read by a reader of its own (tool/recover), which keeps what was read last, so that each delta begins
 * where the one before it ended. One thread at a time.
 */
#pragma once

#include "base/mem.h"
#include "profile/kinds.h"
#include "tool/recover/recover.h"

/* Whether tables have all of a kind. */
static inline bool dp_serve_workers_tell(unsigned kind)
{
    return kind < DP_KIND_TABLES && !dp_kind_table[kind].is_settled_late;
}

/* A profile of one process, not compressed; shared by all who have not passed it on. */
struct dp_serve_delta {
    unsigned n_users;
    unsigned kind, turn; /* turn: of the look in which it was made; 0: its in-use values do not count */
    bool has_pids;       /* its rows have the label pid */
    pid_t pid;           /* 0: of several processes */
    size_t n_bytes;
    uint8_t bytes[];
};

struct dp_serve_worker {
    struct dp_recover_table table;
    struct dp_recover *reader;
    bool lives, is_listed;
    int64_t inuse_bytes; /* as of the last heap profile; -1: none */
};

/* Called with each delta, which may have no row; the callee takes a share of it if it keeps it. */
typedef int (*dp_serve_delta_fn)(void *ctx, struct dp_serve_delta *);

struct dp_serve_workers {
    const char *directory; /* as asked for; NULL: the user's own one */
    char path[PATH_MAX];   /* the same, found */
    DP_VEC(struct dp_serve_worker *) at;
    DP_VEC(uint64_t) broken; /* hashes of the names of tables that cannot be read: each is said once */
    unsigned turn;
    int64_t first_ns; /* the begin of the first process, ns of Unix time; 0: there was none */
    uint64_t n_ended, n_failed;
    struct dp_serve_delta *ended[DP_KIND_TABLES]; /* all that ended processes did; NULL: nothing */
};

struct dp_serve_delta *dp_serve_delta_keep(struct dp_serve_delta *);
void dp_serve_delta_drop(struct dp_serve_delta *); /* takes NULL */

/*
 * Opens processes that are new. Of those that have ended, passes what they did last of every kind to fn, writes their
 * last files if they have a directory for them, and deletes their tables; but not more than `most` of them, since each
 * takes some milliseconds. Returns how many are left, or a negative errno.
 */
int dp_serve_workers_look(struct dp_serve_workers *, unsigned most, dp_serve_delta_fn fn, void *ctx);
/* Reads the tables of all processes again: what follows is of now. */
void dp_serve_workers_refresh(struct dp_serve_workers *);
/* Passes to fn what each process did since the last call for this kind. 0, -ENOMEM or fn's error. */
int dp_serve_workers_collect(struct dp_serve_workers *, unsigned kind, dp_serve_delta_fn fn, void *ctx);
/* The same since each process began, ended ones included. pid 0: all. */
int dp_serve_workers_since_start(struct dp_serve_workers *, unsigned kind, pid_t pid, dp_serve_delta_fn fn, void *ctx);
const struct dp_serve_worker *dp_serve_workers_find(const struct dp_serve_workers *, pid_t pid);
void dp_serve_workers_fini(struct dp_serve_workers *);
