/* SPDX-License-Identifier: MIT */
/*
 * host/report/profile.h - consumers: each writes profiles of the events since its last delivered profile.
 *
 * A consumer has its own lock, held during a whole write, its own baseline (16 bytes per record) and its own copy of
 * the pending values. One global lock covers short steps only (maps, symbols) and is never held while fn runs. In a
 * forked child every consumer starts anew: its baseline is the fork. Context: outside hooks.
 */
#pragma once

#include "config/config.h"
#include "pprof/gzip.h"

#include <deltaprof/deltaprof.h>

struct dp_symbols_files;
struct dp_consumer; /* struct deltaprof_delta is one */

/*
 * kind: enum deltaprof_kind, possibly or'ed with DELTAPROF_MIXED_SIZES. conf: as of dp_consumer_configure; NULL: the
 * settings of the process. NULL and errno: EINVAL or ENOMEM.
 */
struct dp_consumer *dp_consumer_new(unsigned kind, const struct dp_config *conf);
/* Sets symbolize, address, types, max_samples and age. */
void dp_consumer_configure(struct dp_consumer *, const struct dp_config *conf);
/* Fills these fields of *conf, and the others with defaults. */
void dp_consumer_configuration(const struct dp_consumer *, struct dp_config *conf);
/* The value used by its last report. */
enum dp_symbolize dp_consumer_symbolize(const struct dp_consumer *);
/* fn returns the names of values in stacks that a runtime recorded; NULL: these values are addresses. */
void dp_consumer_set_frames(struct dp_consumer *, deltaprof_name_fn fn, void *ctx);
/* Before the first write: bit k selects the events of lock kind k, in mutex and block profiles; 0: all events. */
void dp_consumer_filter(struct dp_consumer *, unsigned locks);
/* type: the default_sample_type, if it is among the types; a static string. NULL: the kind's default. */
void dp_consumer_set_default_type(struct dp_consumer *, const char *type);
/* Before the first write: writes use the files of symbols that are open in *files, and leave those open they add. */
void dp_consumer_share_files(struct dp_consumer *, struct dp_symbols_files *files);
/* The end of the last delivered profile (dp_clock_ns); if there is none, the begin of the first. Any thread. */
int64_t dp_consumer_covered_ns(const struct dp_consumer *);
void dp_consumer_free(struct dp_consumer *); /* takes NULL */

enum dp_write_flags {
    DP_WRITE_CUMULATIVE = 1, /* since start, duration 0; nothing to commit */
    DP_WRITE_SKIP_EMPTY = 2, /* without a row: returns 1, and fn is not called */
    DP_WRITE_NO_WAIT = 4,    /* for exit paths: opens no module, and returns -EAGAIN instead of waiting for a lock */
    DP_WRITE_RAW = 8,        /* not gzipped */
    DP_WRITE_TABLES = 16, /* adds the comment #tables: another process makes the profile from the tables of this one */
    DP_WRITE_ENDED = 32,  /* adds the comment #ended: the process ends with this profile */
    DP_WRITE_RESIDENT = 64,  /* heap: adds the process's resident memory as comments; opens a file */
    DP_WRITE_EXIT = 128,     /* adds the comment #exit: the process begins to end; none of its exit handlers has run */
    DP_WRITE_PEAK = 256,     /* adds the comment #peak: more is in use than in any earlier profile of the process */
    DP_WRITE_SCRAPED = 512,  /* for a database: adds a comment with sums, and states a window of at most 50 minutes */
    DP_WRITE_AT_PEAK = 1024, /* in-use values are those of the highest peak, not of now; returns 1 if none is kept */
    DP_WRITE_OWN = 8192,     /* heap: without memory that a forked process inherited */
    DP_WRITE_KILLED = 2048,  /* adds the comment #killed: another process writes the last profile of a killed one */
};

/* Facts about a written profile, for file names and HTTP headers. */
struct dp_profile_info {
    int64_t from_ns, to_ns; /* wall clock: [last success, now) */
    size_t n_rows;
    int64_t inuse_bytes; /* for heap profiles of hooks; -1: another kind, or inuse_space not among the types */
    int64_t worst;       /* the largest second value of a row */
    size_t n_missed;     /* DP_WRITE_NO_WAIT: frames without a name that a write without this flag might name */
};

/*
 * Writes a profile, which is then pending unless it is cumulative. Returns 0; 1: nothing was written (SKIP_EMPTY,
 * AT_PEAK); or an error: fn's, -EBUSY (a profile is pending), -EAGAIN (it cannot be written now), -EINVAL (this
 * consumer writes the records of a runtime), -ENOMEM, -ECANCELED (fn forked, and this is the child). info may be NULL.
 */
int dp_consumer_write(struct dp_consumer *, unsigned flags, dp_pprof_write_fn fn, void *ctx,
                      struct dp_profile_info *info);
/* The pending profile was delivered: the next one begins at its end. 0, or -EINVAL: none is pending. */
int dp_consumer_commit(struct dp_consumer *);
/* The pending profile was not delivered: the next one covers its time, too. 0, or -EINVAL: none is pending. */
int dp_consumer_abandon(struct dp_consumer *);
/*
 * For a crash handler: the calling thread crashed inside dp_consumer_write, in code that does not change the consumer,
 * and does not return there. The consumer can then write again. Async-signal-safe.
 */
void dp_consumer_unlock_crashed(struct dp_consumer *);
/*
 * Keeps the baseline in the file of tables, so that another process can write the last profile if this one is killed.
 * keep stores the baseline as it will be once the pending profile, file number seq, is committed. kept makes it the
 * valid one: that file was delivered. Both do nothing where tables are private memory.
 */
void dp_consumer_baseline_keep(const struct dp_consumer *, uint32_t seq);
void dp_consumer_baseline_kept(const struct dp_consumer *);
/* In that other process: the new consumer gets the baseline in this column (0 or 1) of the file of tables. */
void dp_consumer_baseline_adopt(struct dp_consumer *, unsigned column);
/*
 * For that other process, if it writes the files: store writes the baseline of a consumer whose write was committed to
 * a column of the file of tables, fd; choose makes a column the valid one. 0 or a negative errno.
 */
int dp_consumer_baseline_store(const struct dp_consumer *, int fd, unsigned column, uint32_t seq);
int dp_consumer_baseline_choose(int fd, unsigned kind, unsigned column);
/* The column is none: no file has its number, and none will be taken for it. */
int dp_consumer_baseline_discard(int fd, unsigned kind, unsigned column);
/* Makes the present state the baseline: earlier events are in no profile. Drops a pending profile. 0 or -errno. */
int dp_consumer_skip(struct dp_consumer *);
