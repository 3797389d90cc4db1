/* SPDX-License-Identifier: MIT */
/*
 * base/quiet.h - keeps the profiler's writes from raising signals in the host. A closed pipe (SIGPIPE) or a file size
 * limit (SIGXFSZ) is then only an errno. Async-signal-safe; errno is kept.
 */
#pragma once

#include <signal.h>

/* No signal is raised between begin and end; calls do not nest. before: the old mask, for end. */
void dp_quiet_begin(sigset_t *before);
void dp_quiet_end(const sigset_t *before);
