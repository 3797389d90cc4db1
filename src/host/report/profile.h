/* SPDX-License-Identifier: MIT */
/*
 * host/report/profile.h - consumers, for the sinks: writes a profile of the events that a consumer has not had yet.
 *
 * A consumer has its own lock, held during a whole write, its own baseline (16 bytes per record) and a private pending
 * copy. One global lock covers short steps only (maps, symbols) and is never held while fn runs. In a forked child
 * every consumer starts anew: its baseline is the fork. Context: outside hooks.
 */
#pragma once

#include "config/config.h"
#include "pprof/gzip.h"

#include <deltaprof/deltaprof.h>

struct dp_symbols_files;
struct dp_consumer; /* struct deltaprof_delta is one */

/*
 * kind: enum deltaprof_kind, possibly or'ed with DELTAPROF_MIXED_SIZES. conf: defaults of symbolize, address, types,
 * max_samples.
 */
struct dp_consumer *dp_consumer_new(unsigned kind, const struct dp_config *conf);
/* Sets symbolize, address, types and max_samples. */
void dp_consumer_configure(struct dp_consumer *, const struct dp_config *conf);
void dp_consumer_configuration(const struct dp_consumer *,
                               struct dp_config *conf);              /* fills those fields; the others are defaults */
enum dp_symbolize dp_consumer_symbolize(const struct dp_consumer *); /* the value used by its last report */
/* fn names the values of a runtime's stacks; NULL: they are addresses. */
void dp_consumer_set_frames(struct dp_consumer *, deltaprof_name_fn fn, void *ctx);
/* Before the first write: bit k selects the events of lock kind k, in mutex and block profiles; 0: all events. */
void dp_consumer_filter(struct dp_consumer *, unsigned locks);
/* type: default_sample_type, if it is among the types; a static text. NULL: the kind's own. */
void dp_consumer_set_default_type(struct dp_consumer *, const char *type);
/* Before the first write: writes open the files of symbols in *files, and leave them open. */
void dp_consumer_share_files(struct dp_consumer *, struct dp_symbols_files *files);
/* When the last delivered profile ended (dp_clock_ns); before the first: the begin of the first. Any thread. */
int64_t dp_consumer_covered_ns(const struct dp_consumer *);
void dp_consumer_free(struct dp_consumer *); /* takes NULL */

enum dp_write_flags {
    DP_WRITE_CUMULATIVE = 1, /* since start, duration 0; nothing to commit */
    DP_WRITE_SKIP_EMPTY = 2, /* no row: fn is not called, returns 1 */
    DP_WRITE_NO_WAIT = 4,    /* try-locks and modules already open only (exit paths); -EAGAIN */
    DP_WRITE_RAW = 8,        /* not gzipped */
    DP_WRITE_ENDED = 32,     /* the comment #ended: the process ends with this profile */
    DP_WRITE_RESIDENT = 64,  /* heap: the process's resident memory, as comments; opens a file */
    DP_WRITE_EXIT = 128,     /* the comment #exit: the process begins to end, no handler of the program has run yet */
    DP_WRITE_PEAK = 256,     /* the comment #peak: more is in use than in any earlier profile of the process */
    DP_WRITE_AT_PEAK = 1024, /* what was in use at the highest peak, instead of now; returns 1 if none is kept */
    DP_WRITE_KILLED = 2048,  /* the comment #killed: the process was killed, and another one writes its last profile */
    DP_WRITE_SCRAPED = 512,  /* for a database: a comment sums up; a window of more than 50 minutes is stated shorter */
};

/* Facts about a written profile, for file names and HTTP headers. */
struct dp_profile_info {
    int64_t from_ns, to_ns; /* wall clock: [last success, now) */
    size_t n_rows;
    int64_t inuse_bytes; /* for heap profiles of hooks; -1: another kind, or inuse_space not among the types */
    int64_t worst;       /* the largest second value of a row */
    size_t n_missed;     /* DP_WRITE_NO_WAIT: frames that a write that waits might name */
};

/*
 * Writes, uncommitted. Returns 0; 1 (SKIP_EMPTY); -EBUSY (the last write was neither committed nor abandoned); fn's
 * error (then abandoned already); or -ECANCELED: fn forked, this is the child, and the write was the parent's. info may
 * be NULL.
 */
int dp_consumer_write(struct dp_consumer *, unsigned flags, dp_pprof_write_fn fn, void *ctx,
                      struct dp_profile_info *info);
int dp_consumer_commit(struct dp_consumer *);
int dp_consumer_abandon(struct dp_consumer *);
/*
 * For a crash handler: the calling thread crashed inside dp_consumer_write of this consumer, in code that changes
 * nothing of it, and does not return there. The consumer can be written again. Async-signal-safe.
 */
void dp_consumer_unlock_crashed(struct dp_consumer *);
/*
 * The baseline of a consumer, for another process that goes on if this one is killed: keep writes what it will be once
 * the pending write is committed, and kept says that the write has arrived, as file seq. Nothing is done where tables
 * are private memory.
 */
void dp_consumer_baseline_keep(const struct dp_consumer *, uint32_t seq);
void dp_consumer_baseline_kept(const struct dp_consumer *);
/* In that process: begins at a column of the tables. A new consumer begins at the start. */
void dp_consumer_baseline_adopt(struct dp_consumer *, unsigned column);
/* Makes the present state the baseline; drops a pending write. */
int dp_consumer_skip(struct dp_consumer *);
