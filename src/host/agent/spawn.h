/* SPDX-License-Identifier: MIT */
/*
 * host/agent/spawn.h - creates a thread of the profiler in the host's process. All signals are blocked from its first
 * instruction on, except the two that glibc uses. Its stack has the given size, plus space for thread-local variables.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>

/* Measures the thread-local variables of the libraries that are loaded. Context: init. */
void dp_agent_spawn_init(void);

/* The size of a stack with stack_bytes to use and space for the thread-local variables; whole pages. */
size_t dp_agent_spawn_bytes(size_t stack_bytes);

/* thread NULL: detached. Returns 0, or a negative errno. Context: where threads may be created. */
int dp_agent_spawn(pthread_t *thread, size_t stack_bytes, void *(*run)(void *), void *arg);
