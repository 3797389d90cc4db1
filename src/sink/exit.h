/* SPDX-License-Identifier: MIT */
/*
 * sink/exit.h - the last delta, and what is said at the end.
 */
#pragma once

#include "base/config.h"

#include <stdbool.h>
#include <stdint.h>

/* speaks: this is the process that `deltaprof run` started. Context: init. */
void dp_exit_init(const struct dp_config *conf, bool speaks);

/*
 * Delivers what is pending, within exit_timeout, once a process; whoever comes second waits for the first. ordinary:
 * exit, where modules may still be opened; else async-signal-safe, no lock that is not tried, no malloc. Nothing in a
 * child of vfork or a raw clone.
 */
void dp_exit_deliver(bool ordinary);
/* The same for a crash: the host's heap may be destroyed or locked, so the agent too writes with cached names only. */
void dp_exit_deliver_crash(void);
/* Before exit: delivers if another thread is in exit, because either may then end the process before the other's
 * handlers have run. */
void dp_exit_begins(void);
/* The end did not come: init of a pid namespace survives its own signals. */
void dp_exit_cancelled(void);

/* Nothing is delivered from now on. */
void dp_exit_forbid(void);

/* dp_clock_ns at which exit goes on. Any context. */
int64_t dp_exit_deadline(void);

/* Only stores. */
void dp_exit_fork_child(void);
