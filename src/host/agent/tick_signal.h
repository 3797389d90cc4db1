/* SPDX-License-Identifier: MIT */
/*
 * host/agent/tick_signal.h - handles the signal that requests profiles now (the key `signal`). The program may have its
 * own handler for that signal: both handlers then run.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>

/* The handler to install in place of SIG_DFL. Async-signal-safe. */
sighandler_t dp_agent_request_handler(void);

/* sig requests profiles from now on. replacement: the action that replaces SIG_DFL, with that handler. Context: init.
 */
void dp_agent_request_init(int sig, const struct sigaction *replacement);

/* Signals request no profiles from now on; the host's handler still runs. */
void dp_agent_request_stop(void);

/* The signal that requests profiles; 0: none. */
int dp_agent_request_signal(void);

/* Whether the action's handler is one of tick_signal.c. */
bool dp_agent_request_is_ours(const struct sigaction *action);

/*
 * The program's sigaction for that signal. *old shows the program's own handler, or SIG_DFL. A handler of tick_signal.c
 * stays installed, unless the program sets SIG_IGN. Calls real once and returns its result. Async-signal-safe.
 */
int dp_agent_request_action(const struct sigaction *act, struct sigaction *old,
                            int (*real)(int, const struct sigaction *, struct sigaction *));
