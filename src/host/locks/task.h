/* SPDX-License-Identifier: MIT */
/*
 * host/locks/task.h - reads from /proc the name of a thread of this process, and the system call that it is in.
 * Context: outside hooks. Each call opens and closes one file; errno is kept.
 */
#pragma once

#include <stdint.h>

#define DP_TASK_NAME_BYTES 17 /* with its NUL */

/* The thread's name; "" if it cannot be read. */
void dp_task_name(int32_t tid, char name[DP_TASK_NAME_BYTES]);

enum { DP_TASK_UNKNOWN = -1, DP_TASK_RUNS = -2 };

/*
 * Returns the number of the system call in which the thread is blocked, and its first argument in *first. DP_TASK_RUNS:
 * the thread is in no system call. DP_TASK_UNKNOWN: the file cannot be read.
 */
long dp_task_call(int32_t tid, uintptr_t *first);

/* The name of a system call in which threads often stay long; NULL: another one. */
const char *dp_task_call_name(long call);
