/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/pushers.h - the programs deltaprof-push that send the files of the directory, one for each receiver. They
 * end with this process, however it ends; what they sent stands in the directory, so the next ones go on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { DP_SERVE_PUSHERS_MOST = 8 };

struct dp_serve_pushers {
    const char *program, *dir;
    const char *urls[DP_SERVE_PUSHERS_MOST];
    size_t n;
    struct {
        pid_t pid; /* 0: it does not run */
        int64_t not_before_ns;
    } at[DP_SERVE_PUSHERS_MOST];
};

/* Starts those that do not run, again some time after they ended. Context: one thread, in which they live. */
void dp_serve_pushers_start(struct dp_serve_pushers *);
/* Ends them, and sends what they have not sent yet within ten seconds. */
void dp_serve_pushers_finish(struct dp_serve_pushers *);
