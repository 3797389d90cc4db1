/* SPDX-License-Identifier: MIT */
/*
 * host/locks/closed.h - finds a process in which no thread can wake any more: all of its threads wait, without a time
 * limit, for something that only one of them could do. Context: outside hooks; one thread at a time.
 */
#pragma once

#include "base/mem.h"
#include "host/locks/holders.h"

#include <stdbool.h>

/* A thread of the group; of another process, if that waits at a pipe for this one, and this one for it. */
struct dp_closed_thread {
    int32_t pid, tid;
    const struct dp_waiting *wait; /* NULL: it waits at a pipe, or for a mutex that no hook saw */
    long call;                     /* the system call */
    uint64_t pipe;                 /* its inode; 0: it waits for memory */
    struct dp_waiting unseen;      /* of a mutex that no hook saw: lock is not 0 */
};

struct dp_closed {
    DP_VEC(struct dp_closed_thread) threads; /* those that wait for the end of another one stand last */
    int64_t since_ns;                        /* since when all have waited, as far as it is known */
};

/*
 * Fills the group. False: some thread runs, sleeps, waits for input or for a limited time, could be woken by another
 * process or by a signal handler; or the kernel does not tell. The threads of the profiler do not count.
 */
bool dp_closed_find(const struct dp_waits *, struct dp_closed *);
void dp_closed_fini(struct dp_closed *);
