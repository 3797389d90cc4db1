/* SPDX-License-Identifier: MIT */
/*
 * host/api/commands.h - commands from outside: `deltaprof on`, `off` and `set` reach a process that began with
 * `start=off`.
 */
#pragma once

#include "config/config.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The process is off, and listens for commands. conf is what `on` starts with. If commands cannot reach it, one line
 * is logged, and it stays off. Context: init, under the core's lock.
 */
void dp_commands_begin(const struct dp_config *conf);

/* Whether commands can reach this process. */
bool dp_commands_are_heard(void);

/*
 * Has a thread of the library carry out the commands that have come. True: one does. One system call if none have come.
 * Context: the outer edge of a hook.
 */
bool dp_commands_poll(void);

/* Carries out the commands, and creates the threads that are needed. Context: a thread of the library. */
void dp_commands_run(void);

/* Before the program creates a thread: one that can carry out commands is prepared. Context: where threads may be. */
void dp_commands_before_thread_create(void);

/* No more commands are heard: a seccomp filter comes. Waits until deadline_ns for a thread that carries out one. */
void dp_commands_forbid(int64_t deadline_ns);

/* Only stores. */
void dp_commands_fork_child(void);
