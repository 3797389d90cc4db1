/* SPDX-License-Identifier: MIT */
/*
 * base/relay.h - passes log lines from threads with their own descriptor table to a thread that still uses the host's
 * table and writes them.
 *
 * The endpoint's threads have a separate descriptor table, so that their descriptors take no numbers of the host's and
 * the host cannot close them. But fd 2, and the descriptors that a log callback uses, are in the host's table only.
 * There is one relay in a process. Context: threads of the profiler.
 */
#pragma once

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens the relay, before the thread that runs it is created. A later close ends that run. */
void dp_relay_open(void);
/* Waits briefly until the current line is written, then ends dp_relay_run. A second call does nothing. */
void dp_relay_close(void);
bool dp_relay_is_open(void);

/*
 * Writes lines, in the calling thread, until the relay is closed (true) or *deadline_ns of dp_clock_ns (false). Another
 * thread may change the deadline, and then calls dp_relay_wake, which may wait a moment.
 */
bool dp_relay_run(const _Atomic int64_t *deadline_ns);
void dp_relay_wake(void);

/* Sends the calling thread's lines through the relay from now on. Threads that it creates must call this themselves. */
void dp_relay_use(void);
bool dp_relay_is_used(void); /* by the calling thread */

/* For the log: passes a line on. Waits at most a second for its turn; without an open relay the line is dropped. */
void dp_relay_line(const char *text, size_t n_bytes);

/* Closes the relay in a forked child, where its thread does not exist. Only stores. */
void dp_relay_fork_child(void);
