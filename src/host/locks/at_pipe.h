/* SPDX-License-Identifier: MIT */
/*
 * host/locks/at_pipe.h - finds a thread that is blocked at a pipe whose other end only this process has: only one of
 * its threads can let it go on. Context: outside hooks; one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct dp_at_pipe {
    uint64_t pipe; /* its inode */
    bool writes;   /* the pipe is full; else it is empty */
    int64_t ns;    /* for how long the thread has been seen there, without a moment on a processor */
};

/* False: the thread is not blocked at such a pipe; or another process has the pipe's other end, or that is not known.
 */
bool dp_at_pipe_find(int32_t tid, struct dp_at_pipe *);
