/* SPDX-License-Identifier: MIT */
/*
 * tool/run/beside.h - starts `deltaprof push` or `deltaprof serve` beside the program that `run` is about to
 * become.
 */
#pragma once

#include "config/config.h"

/*
 * Whether that configuration can be pushed from here: `out` names one directory, and this process can leave a process
 * that is not its child. Returns 0 and the directory in dir; or -EINVAL with the reason in why.
 */
int dp_run_beside_check(const struct dp_config *, char dir[DP_CONFIG_TEXT], char *why, size_t n_why);

/* Makes the directory if it is missing, and starts the pusher. 0 or a negative errno. */
int dp_run_beside_start(const struct dp_config *, const char *dir);

/* What `deltaprof serve` is started with. Paths are absolute; "": none. */
enum { DP_RUN_BESIDE_TO_MOST = 8 };
struct dp_run_beside_server {
    const char *address, *token, *tables;
    const char *out;                       /* its -o */
    const char *to[DP_RUN_BESIDE_TO_MOST]; /* its --to */
    size_t n_to;
};

/*
 * Starts `deltaprof serve`, until this process and all of the directory have ended; waits until it answers. Returns 0
 * and the line that it printed in why; or a negative errno and the reason.
 */
int dp_run_beside_serve(const struct dp_run_beside_server *, char *why, size_t n_why);
