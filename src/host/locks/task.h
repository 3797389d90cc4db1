/* SPDX-License-Identifier: MIT */
/*
 * host/locks/task.h - what /proc says about a thread of this process: its name, and the system call that it is in.
 * Context: outside hooks. Each call opens and closes one file; errno is kept.
 */
#pragma once

#include <stdint.h>

#define DP_TASK_NAME_BYTES 17 /* with its NUL */

/* The thread's name; "" if it cannot be read. */
void dp_task_name(int32_t tid, char name[DP_TASK_NAME_BYTES]);

enum { DP_TASK_UNKNOWN = -1, DP_TASK_RUNS = -2 };

/*
 * Returns the number of the system call that the thread is blocked in, with its first argument in *first; DP_TASK_RUNS:
 * it is not blocked in one; DP_TASK_UNKNOWN: it cannot be read.
 */
long dp_task_call(int32_t tid, uintptr_t *first);

/* The name of a system call in which threads often stay long; NULL: another one. */
const char *dp_task_call_name(long call);
