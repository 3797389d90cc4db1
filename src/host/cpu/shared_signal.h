/* SPDX-License-Identifier: MIT */
/* host/cpu/shared_signal.h - the signal of the timers, shared with libc, which cancels threads by the same one. */
#pragma once

#include <signal.h>
#include <stdbool.h>

/*
 * Installs the handler for a signal that the program cannot see, or, where the kernel refuses that, for SIGPROF if the
 * program leaves it at its default. Returns the signal; -ENOTSUP: there is none. Once installed it stays: a late signal
 * then does no harm. Context: any thread, not a hook.
 */
int dp_cpu_signal_install(void);

/*
 * After a change of the signal's action by others: installs the handler again, before that of libc. False: the program
 * has taken SIGPROF for itself. Any thread; async-signal-safe.
 */
bool dp_cpu_signal_restore(void);

/*
 * Adds it to the mask of an action of the program's, so that it waits while that handler runs: on a small signal stack
 * there may be no room for a second signal. remove hides it again. Async-signal-safe.
 */
void dp_cpu_signal_add(sigset_t *mask);
void dp_cpu_signal_remove(sigset_t *mask);

/* Blocks or unblocks it for the calling thread, past libc, which does not let it be blocked. Returns what it was. */
bool dp_cpu_signal_block(bool on);
