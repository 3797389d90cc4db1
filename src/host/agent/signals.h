/* SPDX-License-Identifier: MIT */
/*
 * host/agent/signals.h - installs signal handlers where the host has none. SIGINT, SIGTERM, SIGHUP and the signals of a
 * crash deliver the last profiles before they kill; one configurable signal asks for a tick.
 */
#pragma once

#include "config/config.h"

#include <signal.h>

/* Installs the handlers that conf asks for, each only if the signal is at SIG_DFL. Context: init. */
void dp_agent_signals_init(const struct dp_config *conf);

/*
 * Restores the real defaults, for ever; the signal that asks for a tick is ignored from then on. Context: before a
 * seccomp filter.
 */
void dp_agent_signals_restore(void);

/*
 * The host's sigaction: shows SIG_DFL instead of the profiler's handler, and installs that handler when the host sets
 * SIG_DFL.
 */
int dp_agent_signals_action(int sig, const struct sigaction *act, struct sigaction *old,
                            int (*real)(int, const struct sigaction *, struct sigaction *));

/* The host's sigaltstack: shows no stack if the thread has one of the profiler. */
int dp_agent_signals_stack(const stack_t *stack, stack_t *old, int (*real)(const stack_t *, stack_t *));

/*
 * To be called by a thread of the profiler, in which all signals are blocked: unblocks the crash signals for which the
 * library's handler is installed, so that this handler gets a crash of the thread. Those with a handler of the host
 * stay blocked, because it must not run in this thread: the kernel then ends the process without it.
 */
void dp_agent_signals_unblock_crashes(void);

/* In a forked child: no thread has crashed. Only stores. */
void dp_agent_signals_fork_child(void);
