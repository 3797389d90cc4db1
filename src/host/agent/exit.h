/* SPDX-License-Identifier: MIT */
/* host/agent/exit.h - delivers the last delta, and logs the summary at the end. */
#pragma once

#include "config/config.h"

#include <stdbool.h>
#include <stdint.h>

/* speaks: log a summary, because this is the process that `deltaprof run` started. Context: init. */
void dp_agent_exit_init(const struct dp_config *conf, bool speaks);

/*
 * The process begins to end, by exit or because main returned, and none of the program's handlers and destructors ran
 * yet: ticks, once a process, within exit_timeout. Not for a process that was forked a moment ago, nor inside an
 * allocation. Context: ordinary code of the program.
 */
void dp_agent_exit_before_handlers(void);

/*
 * Delivers pending profiles, within exit_timeout, once per process; a second thread waits for the first. ordinary: in
 * exit, where modules may still be opened; else async-signal-safe: locks are only tried, no malloc. Does nothing in a
 * child of vfork or a raw clone.
 */
void dp_agent_exit_deliver(bool ordinary);
/*
 * For a handler of a signal that ends the process. True: the calling thread is in dp_agent_exit_deliver, which sends it
 * this signal again when the profiles are written; the handler returns. False for a second signal: the user does not
 * want to wait.
 */
bool dp_agent_exit_put_off(int sig);
/* dp_agent_exit_deliver for a crash: the host's heap may be corrupt or locked, so the agent too uses only cached names.
 */
void dp_agent_exit_deliver_crash(void);
/* Before exit: delivers if another thread is in exit, because either may then end the process before the other's
 * handlers have run. */
void dp_agent_exit_begins(void);
/* To be called if the process did not end: init of a pid namespace survives its own signals. */
void dp_agent_exit_cancelled(void);

/* Nothing is delivered from now on. */
void dp_agent_exit_forbid(void);

/* The dp_clock_ns at which exit continues without waiting. Any context. */
int64_t dp_agent_exit_deadline(void);

/* Only stores. */
void dp_agent_exit_fork_child(void);
