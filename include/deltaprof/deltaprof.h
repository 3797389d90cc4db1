/* SPDX-License-Identifier: MIT */
/*
 * deltaprof.h - starts and stops the profiler, writes delta profiles, and tells what was lost.
 *
 * Every function may be called from any thread once the process runs ordinary code, and not from a signal handler
 * unless its comment allows it. Functions that return int return 0 or a negative errno. Runtimes that report their own
 * allocations use hooks.h; runtimes that keep records of their own use records.h; servers answer with http.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DELTAPROF_VERSION "0.1.0"
#define DELTAPROF_API     __attribute__((visibility("default")))

/* The version of the loaded library, a static string. DELTAPROF_VERSION is the version of this header. */
DELTAPROF_API const char *deltaprof_version(void);

/*
 * Starts profiling. conf is "key=value,key=value" or NULL; DELTAPROF_CONF in the environment overrides it key by key.
 * -EALREADY: it is running (deltaprof_set changes a running one). -EINVAL: a bad key or value, named in one log line;
 * nothing is started. -ENOMEM: the tables could not be mapped. With start=off nothing is started either: the process
 * waits for `deltaprof on PID`, and 0 is returned.
 */
DELTAPROF_API int deltaprof_start(const char *conf);

/*
 * Stops sampling. Frees of known blocks are still counted, all records stay, and a later start continues them.
 * -EALREADY: it is not running.
 */
DELTAPROF_API int deltaprof_stop(void);

/*
 * Changes heap_rate, mutex_rate, block_rate, interval and symbolize while running. -EINVAL: another key, or a bad
 * value, named in the log; nothing changes. A mistake that repeats itself is logged once, and 16 at most are.
 * -ENOTCONN: it was never started.
 */
DELTAPROF_API int deltaprof_set(const char *conf);

/*
 * Ticks now: every sink gets its delta before this returns. Returns the first error of a sink, or 0. -ENOTCONN: not
 * started. An error loses nothing: the next tick covers that time as well.
 */
DELTAPROF_API int deltaprof_emit(void);

enum deltaprof_kind {
    DELTAPROF_HEAP = 0,
    DELTAPROF_MUTEX = 1,
    DELTAPROF_BLOCK = 2,
    DELTAPROF_CPU = 3,   /* of what the hooks record: there are no CPU records of a runtime */
    DELTAPROF_CHAIN = 4, /* who waited for whom; of what the hooks record, as CPU time is */
    DELTAPROF_WALL = 5,  /* where threads spent their time, likewise */
};

/* Or'ed to DELTAPROF_HEAP: a heap record is keyed by its stack alone; see records.h. */
#define DELTAPROF_MIXED_SIZES 0x100

/* Receives n_bytes at bytes. Returns 0, or a negative errno, which ends the write and becomes its result. */
typedef int (*deltaprof_write_fn)(void *ctx, const void *bytes, size_t n_bytes);

/*
 * Names a stack value, for deltaprof_delta_set_frames: fills *name, which is zeroed before. Its result is ignored. The
 * caller owns the strings; they must live until the write returns. Called by the write, on its thread.
 */
struct deltaprof_frame_name {
    const char *function; /* NULL: not known; the value is written as an address */
    const char *file;     /* NULL: not known */
    int64_t line;         /* 0: not known */
    int64_t start_line;   /* first line of the function; 0: not known */
};
typedef int (*deltaprof_name_fn)(void *ctx, uintptr_t value, struct deltaprof_frame_name *name);

/*
 * A consumer of one kind of profile, with its own baseline. Any number of them may exist; they do not affect each
 * other. One object is used by one thread at a time; different objects are independent.
 */
struct deltaprof_delta;

/*
 * Makes a consumer; the caller frees it. NULL: no memory within `memory` (errno ENOMEM), or no such kind (EINVAL). The
 * first write covers everything since start. Works before deltaprof_start too.
 */
DELTAPROF_API struct deltaprof_delta *deltaprof_delta_new(enum deltaprof_kind kind);
DELTAPROF_API void deltaprof_delta_free(struct deltaprof_delta *delta); /* takes NULL */

/*
 * Sets symbolize, address, types, max_samples and age for this consumer. -EINVAL: another key, or a bad value, named in
 * the log.
 */
DELTAPROF_API int deltaprof_delta_set(struct deltaprof_delta *delta, const char *conf);

/*
 * Makes fn name the stack values of records.h, which are then not treated as addresses; fn NULL: addresses again.
 * Returns 0.
 */
DELTAPROF_API int deltaprof_delta_set_frames(struct deltaprof_delta *delta, deltaprof_name_fn fn, void *ctx);

/* Makes the present state the baseline: this consumer never gets earlier events. -ENOMEM: the baseline stays. */
DELTAPROF_API int deltaprof_delta_skip(struct deltaprof_delta *delta);

/*
 * Writes a gzipped pprof of the changes since the last success, in pieces, to fn. If fn accepted every byte, the
 * baseline moves. On any error it stays, and the next write covers this time as well. Returns 0; fn's error; -ENOMEM;
 * -EBUSY: see below; -EINVAL: the object serves records.h; -ECANCELED: fn forked, and this is the child.
 */
DELTAPROF_API int deltaprof_delta_write(struct deltaprof_delta *delta, deltaprof_write_fn fn, void *ctx);

/*
 * The same in two phases, for a sink that learns later whether the profile arrived: commit moves the baseline to the
 * state that the last write_uncommitted delivered; abandon keeps the old baseline. A write returns -EBUSY until one of
 * them was called. commit and abandon return -EINVAL if there is no such write.
 */
DELTAPROF_API int deltaprof_delta_write_uncommitted(struct deltaprof_delta *delta, deltaprof_write_fn fn, void *ctx);
DELTAPROF_API int deltaprof_delta_commit(struct deltaprof_delta *delta);
DELTAPROF_API int deltaprof_delta_abandon(struct deltaprof_delta *delta);

/*
 * Labels: from push to pop, every sample of the calling thread carries the pair key=value: its allocations, its waits,
 * and the waits that it causes. Pairs nest; an inner pair hides an outer one of the same key. Texts are copied at the
 * first push of a pair: at most 63 bytes of key and 128 of value. A process has room for about 900 different sets;
 * later values become "[other]". Each set multiplies the rows of the stacks that carry it, so label by endpoint, not by
 * request. Keys of deltaprof's own (lock, heap, fork, age, thread, bytes) and NULLs are taken and give no label. A pop
 * without a push does nothing. Context: any, signal handlers too; about 20 ns.
 */
DELTAPROF_API void deltaprof_label_push(const char *key, const char *value);
DELTAPROF_API void deltaprof_label_pop(void);

/*
 * For a runtime that runs many tasks on a thread: gives the thread a whole set of labels and returns the set that it
 * had; 0 is no label. A set is good in every thread of the process, for ever: keep one for each task that does not run.
 */
DELTAPROF_API uint32_t deltaprof_labels_swap(uint32_t set);

/*
 * The trace context of the calling thread, as in W3C's traceparent: 16 bytes of trace id and 8 of span id. Until it is
 * set again, the thread's events (the key `events`) have the labels trace_id and span_id, in hex, which OTLP has as a
 * link. Other profiles do not have it, so it may differ for each request. NULL and NULL: none. Context: any, signal
 * handlers too; a few ns.
 */
DELTAPROF_API void deltaprof_trace_set(const unsigned char *trace_id, const unsigned char *span_id);

/*
 * Numbers of events, memory and losses. Counters grow for the life of the process; in a forked child they begin at the
 * fork.
 */
struct deltaprof_stats {
    uint64_t samples;      /* events recorded, all kinds */
    uint64_t records;      /* distinct (kind, heap, labels, stack) */
    uint64_t live;         /* sampled blocks in use now */
    uint64_t memory_bytes; /* mapped by the profiler, counted against `memory` */
    uint64_t ticks;        /* ticks that delivered profiles */
    uint64_t overflow;     /* events added to [overflow]: the table or its stacks were full */
    uint64_t live_full;    /* samples counted as freed at once: the live set was full; in-use is a lower bound */
    uint64_t stacks_cut;   /* stacks that end early: unreadable memory or unknown unwind data */
    uint64_t stacks_none;  /* samples of which only the leaf frame could be kept */
    uint64_t locks_full;   /* contended locks that got no slot; their holders are unknown */
    uint64_t write_errors; /* deltas that a sink refused; they stay pending */
    uint64_t frames_full;  /* frames seen for the first time and shown as [overflow]: their table was full */
    uint64_t stacks_deep;  /* stacks that end early: they have more frames than `depth` */
    uint64_t frames_apart; /* frames of a runtime whose native frame was not found: put at the stack's root end */

    /* What follows takes one pass over all records. Bytes, objects and waits are estimates by samples, since start. */
    uint64_t in_use_bytes, in_use_objects;       /* allocated and not freed */
    uint64_t allocated_bytes, allocated_objects; /* allocated */
    uint64_t waits[16], wait_ns[16];             /* of threads, by enum deltaprof_lock_kind; 0: of unknown kind */
    uint64_t holdups[16], holdup_ns[16];         /* the same by who made others wait: unlocks, and their time */
    uint64_t memory_limit_bytes;                 /* the key `memory` */
    uint64_t files_age_ns;                       /* since files had all events last; UINT64_MAX: no files are written */
    uint64_t events_lost;                        /* events without a time: the ring of the key `events` was full */
    uint64_t cursors_age_ns; /* since the cursor of the endpoint that is furthest behind took a delta; or UINT64_MAX */
};

/*
 * size_bytes is the caller's sizeof *stats. A smaller struct is filled up to its end; the rest of a larger one is
 * zeroed. Always returns 0. The endpoint's /debug/pprof/metrics gives the same numbers, and the age of each cursor.
 */
DELTAPROF_API int deltaprof_get_stats(struct deltaprof_stats *stats, size_t size_bytes);

/*
 * Passes log lines (without newline) to fn instead of `log`; NULL: back to `log`. Some lines always go to `log`,
 * because fn may take a lock or may hang: lines from a signal handler or `_exit`, and the line that says that the last
 * profiles were not written within exit_timeout. fn is called outside hooks, on any thread; the line is valid until fn
 * returns.
 */
typedef void (*deltaprof_log_fn)(void *ctx, const char *line);
DELTAPROF_API void deltaprof_set_log(deltaprof_log_fn fn, void *ctx);

#ifdef __cplusplus
}
#endif
