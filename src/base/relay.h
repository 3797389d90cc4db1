/* SPDX-License-Identifier: MIT */
/*
 * base/relay.h - log lines of threads that have left the host's descriptor table, written by a thread that has not.
 *
 * The endpoint's threads have a table of their own, so that no descriptor of theirs takes a number of the host's or is
 * closed by it. fd 2, and whatever the host's log callback uses, are in the host's table only. There is one relay in a
 * process. Context: threads of ours.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before the thread that runs the relay is made; what is closed from now on ends that run. */
void dp_relay_open(void);
/* Waits briefly until the line under way is written, then ends dp_relay_run. A second call does nothing. */
void dp_relay_close(void);
bool dp_relay_is_open(void);

/* Writes lines, in the calling thread, until the relay is closed (true) or deadline_ns of dp_clock_ns (false). */
bool dp_relay_run(int64_t deadline_ns);

/* The calling thread's lines go through the relay from now on. A thread that it makes has to ask for itself. */
void dp_relay_use(void);
bool dp_relay_is_used(void); /* by the calling thread */

/* For the log: hands a line over. Waits at most a second for its turn; a line without a relay is dropped. */
void dp_relay_line(const char *text, size_t n_bytes);

/* In a forked child the relay's thread is gone. Only stores. */
void dp_relay_fork_child(void);
