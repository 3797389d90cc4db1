/* SPDX-License-Identifier: MIT */
/*
 * sink/signals.h - handlers of ours where the host has none: SIGINT, SIGTERM, SIGHUP and the signals of a crash deliver
 * before they kill, and one signal asks for a tick.
 */
#pragma once

#include "base/config.h"

#include <signal.h>

/* Installs what conf asks for, each only where SIG_DFL stands. Context: init. */
void dp_signals_init(const struct dp_config *conf);

/* The real defaults again, for good; who asks for profiles is not heard any more. Context: before a seccomp filter. */
void dp_signals_release(void);

/* The host's sigaction: sees SIG_DFL where a handler of ours stands, and gets it back where it asks for SIG_DFL. */
int dp_signals_action(int sig, const struct sigaction *act, struct sigaction *old,
                      int (*real)(int, const struct sigaction *, struct sigaction *));

/* The host's sigaltstack: sees no stack where the thread has one of ours. */
int dp_signals_stack(const stack_t *stack, stack_t *old, int (*real)(const stack_t *, stack_t *));

/* A forked child: no thread of it crashed yet. Only stores. */
void dp_signals_fork_child(void);
