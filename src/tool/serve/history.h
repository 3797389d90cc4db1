/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/history.h - the live page, which begins with what stands in the files on disk: `deltaprof view` of their
 * directory in a process of its own, and a cursor whose first delta has what happened since these files.
 */
#pragma once

#include "pprof/gzip.h"
#include "tool/serve/family.h"

struct dp_serve_history {
    int fd;       /* what `deltaprof view` writes; -1: nothing */
    pid_t viewer; /* 0: it does not run */
};

/*
 * Writes the page up to its data through fn, and starts `deltaprof view`, if there are files. Under the family's lock.
 * 0 or a negative errno.
 */
int dp_serve_history_begin(struct dp_serve_history *, struct dp_serve_family *, dp_pprof_write_fn fn, void *ctx);
/* How long the rest of the page is to be waited for; 0: it can be read. */
int64_t dp_serve_history_wait_ns(struct dp_serve_history *);
/* Reads the rest of the page from a place on. The number of bytes, 0 at its end, or a negative errno. */
ssize_t dp_serve_history_read(const struct dp_serve_history *, size_t at, void *buf, size_t n_bytes);
void dp_serve_history_end(struct dp_serve_history *);
