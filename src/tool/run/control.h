/* SPDX-License-Identifier: MIT */
/* tool/run/control.h - sends a command to a process that began with `start=off`, and waits for its answer. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum dp_run_control {
    DP_RUN_CONTROL_DONE,
    DP_RUN_CONTROL_FAILED,  /* why says what is wrong */
    DP_RUN_CONTROL_UNHEARD, /* the command waits: the process has not allocated since */
};

/* command: a verb, a blank, and keys or nothing. Waits for the answer, wait_ns at most. */
enum dp_run_control dp_run_control_send(pid_t pid, const char *command, int64_t wait_ns, char *why, size_t n_why);
