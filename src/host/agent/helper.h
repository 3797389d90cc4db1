/* SPDX-License-Identifier: MIT */
/*
 * host/agent/helper.h - runs a function in a short-lived thread of the profiler, which a hook can start. In a process
 * with one thread this is a new thread; in others, one that was prepared when the program created its first thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Context: init. */
void dp_agent_helper_init(void);

/*
 * Prepares a thread, if none is prepared: a thread is created and ends, and its stack and its thread-local variables
 * stay. Context: where threads may be created.
 */
void dp_agent_helper_prepare(void);

/*
 * Starts fn in a helper thread and returns at once; does nothing if a helper runs already. False: no thread could be
 * started, and fn does not run. Context: the end of the outermost hook.
 */
bool dp_agent_helper_run(void (*fn)(void));

/* Waits until no helper runs. False: one still ran at deadline_ns. */
bool dp_agent_helper_wait(int64_t deadline_ns);

/*
 * To be called in fn, after it has created threads. False: the program has changed its user or group ids meanwhile, and
 * the threads may have the old ones.
 */
bool dp_agent_helper_has_rights(void);

/* Only stores. */
void dp_agent_helper_fork_child(void);
