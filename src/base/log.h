/* SPDX-License-Identifier: MIT */
/*
 * base/log.h - one write(2) a line: `deltaprof[PID]: what, where, errno name, what happens next`.
 *
 * Silent while all is well. Formats what base/text.h knows, without stdio or malloc; control characters become `?`. fd
 * 2 is written only while it is still the file it was at init, or at the end a terminal that was closed. errno is kept.
 * Context: any thread above the waterline, never a hook.
 */
#pragma once

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dp_log_level { DP_LOG_INFO, DP_LOG_ERROR }; /* INFO is said with log=info only */

/* where: "stderr", "none", "info", or an absolute path (with a `/`), opened for appending at each line. Context: init.
 */
void dp_log_init(const char *where);
void dp_log_to(void (*fn)(void *ctx, const char *line), void *ctx); /* NULL: back to where */
/* While on, lines go to `where` and not to fn, which may be no code for a signal handler. Counts; async-signal-safe. */
void dp_log_bypass(bool on);
bool dp_log_wants_info(void);
/* Lines of the process's end follow. Whether they go to stderr, and it is a terminal or was one and is closed. */
int dp_log_end(void);

/* %m is the name of errno: ENOSPC. */
void dp_log(enum dp_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * One line per cause until the cause changes: says the line when `state` (an errno, or 0 for "well again") differs from
 * the last one said for `cause`, which is the caller's own static word. True if it was said. %m is the name of state.
 */
struct dp_log_cause {
    _Atomic int last;
};
int dp_log_once(struct dp_log_cause *cause, int state, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A line with its newline and its NUL. */
#define DP_LOG_LINE_BYTES 1600
/* Writes one formatted line of n bytes where lines go; room for a newline and a NUL follows it. For the relay. */
void dp_log_line(char *text, size_t n_bytes);

/* The calling thread is about to leave the host's descriptor table. -EPERM: it could not reach fd 2 from there, or
 * there is a callback, which will want the host's descriptors. */
int dp_log_own_table(void);
/* From now on only write(2): a seccomp filter stands. */
void dp_log_before_seccomp(void);
/* In a forked child. Only stores. */
void dp_log_fork_child(void);
