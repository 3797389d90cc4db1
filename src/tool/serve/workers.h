/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/workers.h - reads the processes whose tables lie in a directory. A worker is one of them, with its reader.
 *
 * A delta is a profile of one process since its last delta. The reader (tool/recover) keeps the baseline for that. One
 * thread at a time.
 */
#pragma once

#include "base/mem.h"
#include "profile/kinds.h"
#include "tool/recover/recover.h"

/* Whether the tables of a process have all events of a kind (profile/kinds.h). */
static inline bool dp_serve_workers_tell(unsigned kind)
{
    return kind < DP_KIND_TABLES && !dp_kind_table[kind].is_settled_late;
}

/* A profile, not compressed. Several lists share it; n_users counts them. */
struct dp_serve_delta {
    unsigned n_users;
    unsigned kind, turn; /* turn: number of the refresh before it was read; 0: its in-use values do not count */
    bool has_pids;       /* its rows have the label pid */
    pid_t pid;           /* 0: of several processes */
    char table[DP_TABLE_NAME_MAX]; /* of the process; "": of several, or not known */
    size_t n_bytes;
    uint8_t bytes[];
};

/* A process that may be a short one is read once, at its end. */
#define DP_SERVE_YOUNG_NS INT64_C(1000000000)

struct dp_serve_worker {
    struct dp_recover_table table;
    struct dp_recover *reader;
    bool lives, is_listed;
    bool is_prepared;                              /* see dp_serve_workers_prepare_next */
    bool opened_ended;                             /* it had ended when the reader was opened, which so knows when */
    int64_t due_ns;                                /* its next files, monotonic */
    int64_t inuse_bytes;                           /* as of the last heap profile; -1: none */
    struct dp_serve_delta *before[DP_KIND_TABLES]; /* what an earlier server had of it; NULL: nothing, or it is used */
};

/* Called with each delta, which may have no row. A callee that stores it calls dp_serve_delta_keep. */
typedef int (*dp_serve_delta_fn)(void *ctx, struct dp_serve_delta *);

/* What an earlier server had of a process of which no reader is open yet. */
struct dp_serve_before {
    char name[DP_TABLE_NAME_MAX]; /* of its table */
    struct dp_serve_delta *delta; /* of one kind, since its start; NULL: none, or it was passed to the worker */
    bool is_used;                 /* a worker was opened for the table */
};

/* An ended process whose last files could not be written (unwritten.h). */
struct dp_serve_unwritten {
    struct dp_recover_table table;
    struct dp_serve_delta *totals[DP_KIND_TABLES]; /* since its start; NULL: nothing */
};

struct dp_serve_workers {
    const char *directory; /* as given; NULL: the user's default one */
    char path[PATH_MAX];   /* its path */
    DP_VEC(struct dp_serve_worker *) at;
    DP_VEC(struct dp_serve_before) before;
    DP_VEC(struct dp_recover_table) left; /* ended processes that the last look left, the oldest first */
    size_t n_left_done;                   /* of them */
    DP_VEC(uint64_t) broken;              /* hashes of the names of tables that cannot be read: each is logged once */
    DP_VEC(struct dp_serve_unwritten) unwritten;
    int64_t retry_ns, pause_ns; /* of those: when it is tried again, and after which pause */
    int last_files_error;       /* of those: it was said */
    uint64_t n_unwritten_lost;
    unsigned turn;
    int64_t first_ns;    /* the begin of the first process, ns of Unix time; 0: there was none */
    int64_t interval_ns; /* between files; 0: only the last ones are written */
    int files_error;     /* of the last files that were not written; it was said */
    uint64_t n_ended, n_failed;
    bool was_on[DP_KIND_TABLES];                  /* in any process, when it was looked at */
    struct dp_serve_delta *ended[DP_KIND_TABLES]; /* all that ended processes did; NULL: nothing */
};

/* Adds a user; removes one, and frees the delta with the last. drop takes NULL. */
struct dp_serve_delta *dp_serve_delta_keep(struct dp_serve_delta *);
void dp_serve_delta_drop(struct dp_serve_delta *);

/*
 * Reads the directory and opens readers for new processes. For each process that has ended: passes its last delta of
 * every kind to fn, writes its last files if it has a directory for them, and deletes its tables. This takes some
 * milliseconds each, so it does so for at most `most` of them. Returns how many are left, or a negative errno.
 */
int dp_serve_workers_look(struct dp_serve_workers *, unsigned most, dp_serve_delta_fn fn, void *ctx);
/* Does so for at most `most` of those that the last look left, without reading the directory again. Returns the same.
 */
int dp_serve_workers_end_left(struct dp_serve_workers *, unsigned most, dp_serve_delta_fn fn, void *ctx);
/*
 * Writes the next files of one process that is due, of those that write none themselves. False: none is due. What
 * cannot be written comes with the files of the next interval. At the end is_last makes all due once more.
 */
bool dp_serve_workers_write_next(struct dp_serve_workers *, int64_t now_ns, bool is_last);
/*
 * Passes the first deltas of one living process to fn, so that its reader has the names of its functions before the
 * first request, which so need not wait for them. Leaves out those younger than DP_SERVE_YOUNG_NS. False: none is left.
 */
bool dp_serve_workers_prepare_next(struct dp_serve_workers *, dp_serve_delta_fn fn, void *ctx);
/* When the next files are due; INT64_MAX: never. */
int64_t dp_serve_workers_due(const struct dp_serve_workers *);
/* Reads the tables of all processes again: what follows is of now. */
void dp_serve_workers_refresh(struct dp_serve_workers *);
/*
 * Passes a delta of each process to fn. 0, -ENOMEM or fn's error. pid: the process whose profile is wanted; 0: the sum,
 * and then deltas of several processes do not have the memory that these inherited.
 */
int dp_serve_workers_collect(struct dp_serve_workers *, unsigned kind, pid_t pid, dp_serve_delta_fn fn, void *ctx);
/* Passes profiles since the start instead: of the process with this pid, or, for pid 0, of all, ended ones included. */
int dp_serve_workers_since_start(struct dp_serve_workers *, unsigned kind, pid_t pid, dp_serve_delta_fn fn, void *ctx);
/* Passes the profile since its start of each process to fn, without counting ended ones. 0, -ENOMEM or fn's error. */
typedef int (*dp_serve_total_fn)(void *ctx, const struct dp_serve_worker *, struct dp_serve_delta *);
int dp_serve_workers_totals(struct dp_serve_workers *, unsigned kind, dp_serve_total_fn fn, void *ctx);
/*
 * Before the first look, of what an earlier server had. begin_at: the first delta of the process with that table begins
 * after this profile since its start. add_ended: adds to what ended processes did. 0 or -ENOMEM.
 */
int dp_serve_workers_begin_at(struct dp_serve_workers *, const char *table, struct dp_serve_delta *);
int dp_serve_workers_add_ended(struct dp_serve_workers *, struct dp_serve_delta *);
/* As collect, but since the last files of each process that writes files into `out`; of others since the start. */
int dp_serve_workers_since_files(struct dp_serve_workers *, unsigned kind, const char *out, dp_serve_delta_fn fn,
                                 void *ctx);
/*
 * Whether a kind is off in the process with this pid, or, for pid 0, was off in all that were seen: it was off at their
 * start, and nothing was recorded since, as would be if it was switched on later.
 */
bool dp_serve_workers_lack(struct dp_serve_workers *, unsigned kind, pid_t pid);
const struct dp_serve_worker *dp_serve_workers_find(const struct dp_serve_workers *, pid_t pid);
void dp_serve_workers_fini(struct dp_serve_workers *);
