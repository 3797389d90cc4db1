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
 * The process is off, and looks for commands from now on. conf: the log that it uses until `on`. If commands cannot
 * reach it, one line is logged, and it stays off. Context: init, under the core's lock.
 */
void dp_commands_begin(const struct dp_config *conf);

/* Whether commands can reach this process. */
bool dp_commands_are_on(void);

/*
 * Starts a helper thread that carries out the commands that have come. Returns whether one runs. One system call if no
 * command has come. Context: the end of the outermost hook.
 */
bool dp_commands_poll(void);

/* Carries out the commands, and creates the agent if it is needed. Context: a helper thread. */
void dp_commands_run(void);

/* Before the program creates a thread: prepares a helper thread. Context: where threads may be created. */
void dp_commands_before_thread_create(void);

/* No command is carried out from now on: a seccomp filter comes. Waits for one under way, until deadline_ns. */
void dp_commands_forbid(int64_t deadline_ns);

/* Only stores. */
void dp_commands_fork_child(void);
