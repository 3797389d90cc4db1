/* SPDX-License-Identifier: MIT */
/*
 * base/log.h - writes log lines, each by one write(2): `deltaprof[PID]: what, where, errno name, what happens next`.
 *
 * Silent while all is well. Formats are those of base/text.h, without stdio or malloc; control characters become `?`.
 * fd 2 is written only while it is still the file that it was at init. At the process's end a terminal that was closed
 * is opened again. errno is kept. Context: any thread, outside hooks.
 */
#pragma once

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dp_log_level { DP_LOG_INFO, DP_LOG_ERROR }; /* INFO lines appear with log=info only */

/* where: "stderr", "none", "info", or an absolute path (with a `/`), opened for appending at each line. Context: init.
 */
void dp_log_init(const char *where);
void dp_log_to(void (*fn)(void *ctx, const char *line), void *ctx); /* NULL: back to `where` */
/*
 * While on, lines go to `where` and not to fn, which may not be safe in a signal handler. Calls nest;
 * async-signal-safe.
 */
void dp_log_bypass(bool on);
bool dp_log_wants_info(void);
/*
 * Announces that the lines of the process's end follow. Returns whether they go to stderr and it is a terminal, or a
 * closed one.
 */
bool dp_log_end(void);

/* %m is the name of errno: ENOSPC. */
void dp_log(enum dp_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Logs a condition once: writes the line if `state` (an errno, or 0 for "well again") differs from the last one logged
 * for `cause`, which is a static word of the caller. True if it was written. %m is the name of state.
 */
struct dp_log_cause {
    _Atomic int last;
};
bool dp_log_once(struct dp_log_cause *cause, int state, const char *format, ...) __attribute__((format(printf, 3, 4)));

/*
 * Logs a mistake that the program may make again and again: not if the line is the same as the last one for `bound`,
 * a static variable of the caller, and at most DP_LOG_BOUND lines. Two threads may exceed that by a line each.
 */
#define DP_LOG_BOUND 16u
struct dp_log_bound {
    _Atomic uint32_t n;
    _Atomic uint64_t last; /* a hash of the line */
};
void dp_log_bounded(struct dp_log_bound *bound, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The longest line, with newline and NUL. */
#define DP_LOG_LINE_BYTES 1600
/*
 * Writes one formatted line of n bytes to where the log goes; room for a newline and a NUL follows it. For the relay.
 */
void dp_log_line(char *text, size_t n_bytes);

/*
 * Gives the calling thread a descriptor table of its own (dp_process_own_descriptors), from which the log is written as
 * before. A negative errno, and it keeps the host's: -EPERM, it could not reach fd 2 from there, or there is a log
 * callback, which may need the host's descriptors; -EBUSY, the host has a message queue; others, it is not permitted.
 */
int dp_log_own_table(void);
/* From now on uses only write(2): a seccomp filter is active. */
void dp_log_before_seccomp(void);
/* In a forked child. Only stores. */
void dp_log_fork_child(void);
