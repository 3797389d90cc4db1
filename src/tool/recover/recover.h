/* SPDX-License-Identifier: MIT */
/*
 * tool/recover/recover.h - reads the tables of profiled processes from outside, while they live and after they ended.
 *
 *     list       which tables a directory has, and whose
 *     open       one table; a process of its own reads it (library.c), so that a damaged one harms nobody
 *     write      a profile of one kind, through a sink
 *     files      writes what is new of all kinds as the next files of the process
 *     deliver    of an ended process: writes its last files, and deletes the table
 *
 * Strings are valid as long as their struct. One thread at a time for each struct. Errors are negative errnos, with one
 * line in `why` (DP_RECOVER_WHY bytes), which names what could not be read.
 */
#pragma once

#include "base/mem.h"
#include "pprof/stamp.h"
#include "tmpfs/table_file.h"
#include "tmpfs/table_place.h"

#include <deltaprof/outside.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DP_RECOVER_WHY 512

enum dp_recover_state {
    DP_RECOVER_LIVES,
    DP_RECOVER_ENDED,   /* its last profiles were not delivered */
    DP_RECOVER_DONE,    /* all was delivered: the table is only to be deleted */
    DP_RECOVER_UNKNOWN, /* no file of tables of this version */
};

struct dp_recover_table {
    char name[DP_TABLE_NAME_MAX]; /* in the directory */
    enum dp_recover_state state;
    pid_t pid, parent;
    int64_t begin_wall_ns;        /* the start, or the fork */
    int64_t changed_ns;           /* of the file: Unix time */
    int64_t n_bytes;              /* of memory */
    bool samples[DP_KIND_TABLES]; /* by kind: it is on now */
    bool is_off;                  /* deltaprof off turned all of them off */
    char program[64];
    struct dp_stamp stamp;   /* of its files; process 0: it has written none */
    bool was_killed;         /* of one that has ended */
    bool is_elsewhere;       /* in another pid namespace, or perhaps: pid means nothing here */
    bool is_written_outside; /* by the program that serves the directory, since it writes no files itself */
    char out[PATH_MAX];      /* where its files are written; "": nowhere */
};

/* A living process whose tables could not be in a file, and are private memory. */
struct dp_recover_private {
    char name[DP_TABLE_NAME_MAX]; /* of the file that says so */
    pid_t pid;
    int err;           /* why: an errno */
    bool is_elsewhere; /* as above */
    int64_t begin_wall_ns;
    char program[64];
};

struct dp_recover_list {
    char directory[PATH_MAX];
    struct dp_recover_table *at;
    size_t n;
    DP_VEC(struct dp_recover_private) private;
};

/* Reads a directory; NULL: the user's own one, with those of `run --serve` in it. 0 and an empty list if it does not
 * exist. Sorted by begin. */
int dp_recover_list(const char *directory, struct dp_recover_list *list, char *why);
void dp_recover_list_fini(struct dp_recover_list *list);

/* The table of the living process with this pid, rather of this pid namespace than of another; NULL: there is none. */
const struct dp_recover_table *dp_recover_find(const struct dp_recover_list *list, pid_t pid);
/* Whether its tables are private still: a process of this pid namespace may have executed another program since. */
bool dp_recover_is_private(const struct dp_recover_list *list, const struct dp_recover_private *);

struct dp_recover;
/* Starts a reader and copies the tables. NULL: why tells the reason. */
struct dp_recover *dp_recover_open(const char *directory, const struct dp_recover_table *table, char *why);
/* Copies the tables again: a living process has gone on. 0 or a negative errno. */
int dp_recover_refresh(struct dp_recover *, char *why);
/*
 * Writes a profile of kind (enum dp_kind_id) through fn. flags: enum deltaprof_outside_flags. Returns 0; 1: no row,
 * with SKIP_EMPTY; fn's error; -EPIPE: the reader died; or another negative errno.
 */
int dp_recover_write(struct dp_recover *, unsigned kind, unsigned flags, deltaprof_write_fn fn, void *ctx,
                     struct deltaprof_outside_profile *profile);
/*
 * The same in two steps, so that several readers work at once: begin asks, end waits for the answer. Each begin is
 * followed by its end before the reader is asked again.
 */
void dp_recover_refresh_begin(struct dp_recover *);
int dp_recover_refresh_end(struct dp_recover *, char *why);
void dp_recover_write_begin(struct dp_recover *, unsigned kind, unsigned flags);
int dp_recover_write_end(struct dp_recover *, deltaprof_write_fn fn, void *ctx,
                         struct deltaprof_outside_profile *profile);
/* Writes the waits under way in a living process as text, as its page `waits`. 0, fn's error, -EPIPE or another one. */
int dp_recover_waits(struct dp_recover *, deltaprof_write_fn fn, void *ctx);
void dp_recover_close(struct dp_recover *); /* takes NULL */

/*
 * Of a reader that was opened for files: stores how far the last profile without SINCE_* goes, before its file gets the
 * name with number seq, which must be above `highest`; kept: after that. See outside.h.
 */
int dp_recover_keep(struct dp_recover *, unsigned kind, uint32_t seq);
int dp_recover_kept(struct dp_recover *, unsigned kind);
uint32_t dp_recover_highest(const struct dp_recover *);
/* The next files go to another directory: how far the present ones go is settled now, while they can be seen. */
int dp_recover_settle(struct dp_recover *);

/*
 * Writes what all kinds have since the last files of the process as its next ones, in table->out. flags: ENDED, KILLED,
 * or 0. Returns the number of files, or a negative errno: what has no file comes with the next ones, and *what says
 * what could not be done ("write", as in "cannot write the profiles").
 */
int dp_recover_files_write(struct dp_recover *, const struct dp_recover_table *table, unsigned flags,
                           const char **what);
/* Deletes temporary files that a writer left that was killed; of another pid namespace, after a minute. */
void dp_recover_files_clean(const char *out);
/*
 * Deletes the oldest files beyond `keep` ticks of each running process, and of all that have ended; of this boot and
 * pid namespace only. 0: none.
 */
void dp_recover_files_limit(const char *out, uint64_t keep);

/* A growing array, and the fn that appends to it. */
struct dp_recover_bytes {
    DP_VEC(uint8_t) at;
};
int dp_recover_append(void *bytes, const void *from, size_t n_bytes);

/*
 * Writes the last profiles of an ended process to its directory, with the comments #ended and #killed, then deletes the
 * table. Another process that is doing this already is left alone. reader: one that was opened after the process had
 * ended; NULL: a new one. Returns the number of files; or a negative errno: the table stays.
 */
int dp_recover_deliver(const char *directory, const struct dp_recover_table *table, struct dp_recover *reader,
                       char *why);

/* Deletes the table of an ended process that nobody needs. 0 or a negative errno. */
int dp_recover_delete(const char *directory, const struct dp_recover_table *table);

/*
 * Takes the lock of the one program that serves a directory: while it lives, processes that end leave their tables to
 * it, and others deliver none. What an earlier program left is as it was: this one may still fail to start. Returns a
 * descriptor to keep, or a negative errno; -EAGAIN: another program has it.
 */
int dp_recover_lock(const char *directory, char *why);
/*
 * With that descriptor: it serves from now on. out: the directory, an absolute path, in which it writes files of the
 * processes that write none themselves; "": it writes none. When it ends, or is killed, processes go on to leave their
 * tables for an hour (dp_recover_touch_files), and their last files belong there. An earlier program may have written
 * them to another directory. 0 or a negative errno.
 */
int dp_recover_serve(int lock, const char *directory, const char *out, char *why);
/* With that descriptor: the hour begins now. */
void dp_recover_touch_files(int lock);
/* With that descriptor: no program is to write any files. */
void dp_recover_end_files(int lock);
/* With that descriptor: processes leave their tables for an hour to the next program, which writes no files either. */
void dp_recover_keep_tables(int lock);
/* Whether such a program has ended and its files go on: where they are. */
bool dp_recover_was_served(const char *directory, char out[PATH_MAX]);
/* If the directory has no tables: deletes the file of that lock, and the directory unless it has other files. */
void dp_recover_end_serving(const char *directory);
/* Does so for all families of `run --serve` in a user's directory whose programs ended more than a minute ago. */
void dp_recover_end_families(const char *directory);
/* Whether another program serves the directory. */
bool dp_recover_is_served(const char *directory);

/*
 * Delivers all ended processes of a directory that write to `out`, or to any directory if out is NULL, and deletes
 * remains. fn is called with each table that could not be read. Returns the number of processes.
 */
int dp_recover_all(const char *directory, const char *out, void (*fn)(const char *why));

/* The reader's process: what main calls for `deltaprof --read-tables`. Returns an exit status. */
int dp_recover_reader(int argc, char **argv);
