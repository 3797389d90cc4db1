/* SPDX-License-Identifier: MIT */
/*
 * host/agent/tick_signal.h - the signal that asks for profiles now (`signal`), also where the host has a handler of its
 * own for it.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>

/* The handler where the host has none; it takes the place of SIG_DFL. Async-signal-safe. */
sighandler_t dp_agent_request_handler(void);

/* From now on sig asks, stand_in being the action with the handler above. Context: init. */
void dp_agent_request_init(int sig, const struct sigaction *stand_in);

/* Requests are not heard any more; the host's handler still runs. */
void dp_agent_request_stop(void);

/* 0: no signal asks. */
int dp_agent_request_signal(void);

/* Whether this is an action of tick_signal.c. */
bool dp_agent_request_is_ours(const struct sigaction *action);

/*
 * The host's sigaction for that signal: the host sees its own handler, or SIG_DFL; the library's stays installed.
 * SIG_IGN is installed as it is. Calls real once and returns what it did. Async-signal-safe.
 */
int dp_agent_request_action(const struct sigaction *act, struct sigaction *old,
                            int (*real)(int, const struct sigaction *, struct sigaction *));
