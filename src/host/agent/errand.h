/* SPDX-License-Identifier: MIT */
/*
 * host/agent/errand.h - runs a function in a short-lived thread of the profiler, which a hook may ask for: in a process
 * with one thread in a new thread, in others in a thread that was prepared when the program created its first one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Context: init. */
void dp_agent_errand_init(void);

/*
 * Prepares a thread, if none is: one thread is created, ends, and leaves its stack and its thread-local variables
 * behind. Context: where threads may be created.
 */
void dp_agent_errand_prepare(void);

/*
 * Runs fn in a thread of its own, unless an errand is under way. Returns without waiting for it. False: it is not run,
 * because no thread can be had here. Context: the outer edge of a hook.
 */
bool dp_agent_errand_run(void (*fn)(void));

/* Waits until no errand is under way. False: not by deadline_ns. */
bool dp_agent_errand_wait(int64_t deadline_ns);

/*
 * In an errand, after it has created threads: false: the program has changed its user or group ids meanwhile, and these
 * threads may have the old ones.
 */
bool dp_agent_errand_has_rights(void);

/* Only stores. */
void dp_agent_errand_fork_child(void);
