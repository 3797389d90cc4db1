/* SPDX-License-Identifier: MIT */
/*
 * deltaprof.h - start the profiler, stop it, take what changed since last time, see what it lost.
 *
 * Every function here may be called from any thread once the process runs ordinary code, none from a signal
 * handler unless it says so. Functions that return int give 0 or a negative errno. Runtimes that report their own
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

/* The version of the library that is loaded, a static string; DELTAPROF_VERSION is that of this header. */
DELTAPROF_API const char *deltaprof_version(void);

/*
 * Starts profiling. conf is "key=value,key=value" or NULL; DELTAPROF_CONF in the environment overrides it key by key.
 * -EALREADY: it runs already (deltaprof_set changes a running one). -EINVAL: a bad key or value, named in one line
 * of the log; nothing is started. -ENOMEM: the tables could not be mapped.
 */
DELTAPROF_API int deltaprof_start(const char *conf);

/*
 * Takes no new samples from now on; frees of known blocks are still counted, all records stay, a later start
 * continues them. -EALREADY when it does not run.
 */
DELTAPROF_API int deltaprof_stop(void);

/*
 * Changes heap_rate, mutex_rate, block_rate, interval and symbolize while running. -EINVAL: another key, or a bad
 * value, named in the log; nothing is changed. -ENOTCONN: it was never started.
 */
DELTAPROF_API int deltaprof_set(const char *conf);

/*
 * Ticks now: every sink gets its delta before this returns. The first error of a sink, or 0. -ENOTCONN when not
 * started. An error loses nothing: the next tick covers that time as well.
 */
DELTAPROF_API int deltaprof_emit(void);

enum deltaprof_kind {
    DELTAPROF_HEAP = 0,
    DELTAPROF_MUTEX = 1,
    DELTAPROF_BLOCK = 2,
};

/* Or'ed to DELTAPROF_HEAP: a heap record is keyed by its stack alone; see records.h. */
#define DELTAPROF_MIXED_SIZES 0x100

/* Takes n_bytes at bytes; 0, or a negative errno that ends the write and is returned by it. */
typedef int (*deltaprof_write_fn)(void *ctx, const void *bytes, size_t n_bytes);

/*
 * Names a stack value for deltaprof_delta_set_frames: fills name, which comes zeroed. Its result is not looked at.
 * Strings stay the caller's and must live until the write returns. Called by the write, on its thread.
 */
struct deltaprof_frame_name {
    const char *function; /* NULL: not known, the value is written as an address */
    const char *file;     /* NULL: not known */
    int64_t line;         /* 0: not known */
    int64_t start_line;   /* of the function; 0: not known */
};
typedef int (*deltaprof_name_fn)(void *ctx, uintptr_t value, struct deltaprof_frame_name *name);

/*
 * A consumer: one kind of profile with a baseline of its own. Any number of them, none takes from another. One
 * object is used by one thread at a time; different objects are independent.
 */
struct deltaprof_delta;

/*
 * The caller frees it. NULL: no memory within `memory` (errno ENOMEM), or no such kind (EINVAL). The first write gives
 * everything since start. Works before deltaprof_start, too.
 */
DELTAPROF_API struct deltaprof_delta *deltaprof_delta_new(enum deltaprof_kind kind);
DELTAPROF_API void deltaprof_delta_free(struct deltaprof_delta *delta); /* takes NULL */

/* symbolize, address, types and max_samples for this consumer alone. -EINVAL: another key, or a bad value, named in the
 * log. */
DELTAPROF_API int deltaprof_delta_set(struct deltaprof_delta *delta, const char *conf);

/* Stack values of records.h are named by fn and taken as they are; fn NULL goes back to addresses. 0. */
DELTAPROF_API int deltaprof_delta_set_frames(struct deltaprof_delta *delta, deltaprof_name_fn fn, void *ctx);

/* Makes now the baseline: what happened so far is never delivered here. -ENOMEM: the baseline stays. */
DELTAPROF_API int deltaprof_delta_skip(struct deltaprof_delta *delta);

/*
 * Writes a gzipped pprof of what happened since the last success, in pieces, to fn. When fn took every byte, the
 * baseline moves; on any error it stays, and the next write covers this time as well. fn's error; -ENOMEM; -EBUSY: see
 * below; -EINVAL: this delta is one of records.h; -ECANCELED: fn forked, and this is the child.
 */
DELTAPROF_API int deltaprof_delta_write(struct deltaprof_delta *delta, deltaprof_write_fn fn, void *ctx);

/*
 * The same in two phases, for a sink that learns later whether it arrived: commit moves the baseline to what the
 * last write_uncommitted delivered, abandon drops that. -EBUSY: a write before the last one was settled. -EINVAL:
 * nothing to settle.
 */
DELTAPROF_API int deltaprof_delta_write_uncommitted(struct deltaprof_delta *delta, deltaprof_write_fn fn, void *ctx);
DELTAPROF_API int deltaprof_delta_commit(struct deltaprof_delta *delta);
DELTAPROF_API int deltaprof_delta_abandon(struct deltaprof_delta *delta);

/*
 * What the profiler saw, uses and could not keep. Counters grow for the life of the process (a forked child's from the
 * fork).
 */
struct deltaprof_stats {
    uint64_t samples;      /* events recorded, all kinds */
    uint64_t records;      /* distinct (kind, heap, labels, stack) */
    uint64_t live;         /* sampled blocks in use now */
    uint64_t memory_bytes; /* mapped by the profiler, of `memory` */
    uint64_t ticks;        /* ticks that delivered */
    uint64_t overflow;     /* events added to [overflow]: the table or its stacks were full */
    uint64_t live_full;    /* samples counted as freed at once: the live set was full; in-use is a lower bound */
    uint64_t stacks_cut;   /* stacks that end early: unreadable memory or unknown unwind data */
    uint64_t stacks_none;  /* samples of which only the leaf frame could be kept */
    uint64_t locks_full;   /* contended locks without a slot of their own; their holders are unknown */
    uint64_t write_errors; /* deltas that a sink did not take; they stayed pending */
    uint64_t frames_full;  /* frames seen for the first time and shown as [overflow]: their table was full */
    uint64_t stacks_deep;  /* stacks that end early: they have more frames than `depth` */
    uint64_t frames_apart; /* frames of a runtime whose native frame was not found: put at the stack's root end */
};

/*
 * size_bytes is sizeof *stats as the caller knows it; a shorter one is filled as far as it goes, a longer one zeroed
 * beyond. 0, always.
 */
DELTAPROF_API int deltaprof_get_stats(struct deltaprof_stats *stats, size_t size_bytes);

/*
 * Gives log lines (without newline) to fn in place of `log`; NULL goes back. Lines of a signal handler or of `_exit`,
 * and the line that says that the last profiles were not written within exit_timeout, go to `log`: fn may take a lock,
 * or be what hung. Called above the hooks, on any thread; a line is fn's until it returns.
 */
typedef void (*deltaprof_log_fn)(void *ctx, const char *line);
DELTAPROF_API void deltaprof_set_log(deltaprof_log_fn fn, void *ctx);

#ifdef __cplusplus
}
#endif
