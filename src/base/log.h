/* SPDX-License-Identifier: MIT */
/*
 * base/log.h - one write(2) a line: `deltaprof[PID]: what, where, errno name, what happens next`.
 *
 * Silent while all is well. Formats %s %d %u %zu %lld %llu %x (and `%m` for the name of errno) without stdio or malloc.
 * fd 2 is written only while it is still the file it was at init. errno is kept.
 * Context: any thread above the waterline, never a hook.
 */
#pragma once

#include <stdint.h>

enum dp_log_level { DP_LOG_INFO, DP_LOG_ERROR };

/* where: "stderr", "none", "info", or an absolute path that is opened for appending at the first line. */
void dp_log_init(const char *where);
void dp_log_to(void (*fn)(void *ctx, const char *line), void *ctx); /* NULL: back to where */
int dp_log_wants_info(void);

void dp_log(enum dp_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * One line per cause until the cause changes: says the line when `state` (an errno, or 0 for "well again") differs from
 * the last one said for `cause`, which is the caller's own static word. True if it was said.
 */
struct dp_log_cause {
    int last;
};
int dp_log_once(struct dp_log_cause *cause, int state, const char *format, ...) __attribute__((format(printf, 3, 4)));
