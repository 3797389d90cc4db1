/* SPDX-License-Identifier: MIT */
/*
 * base/quiet.h - what this thread writes raises no signal: a reader that went away (SIGPIPE) or a limit on file sizes
 * (SIGXFSZ) is an errno of ours and must not end the host. Async-signal-safe; errno is kept.
 */
#pragma once

#include <signal.h>

/* Between the two; does not nest. before: what end needs. */
void dp_quiet_begin(sigset_t *before);
void dp_quiet_end(const sigset_t *before);
