/* SPDX-License-Identifier: MIT */
/*
 * base/task.h - reads from /proc the name of a thread, and the system call that it is in. Context: outside hooks.
 * Each call opens and closes one file; errno is kept. A pid of 0 is this process.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DP_TASK_NAME_BYTES 17 /* with its NUL */

/*
 * 0; in a process that has copied the tables of another one the pid of that one, which all calls here then mean by 0;
 * -1 if that process cannot be seen.
 */
extern int32_t dp_task_process __attribute__((visibility("hidden")));

/* Whether the process has no thread with this id any more. */
bool dp_task_is_gone(int32_t tid);

/* The thread's name; "" if it cannot be read. */
void dp_task_name(int32_t tid, char name[DP_TASK_NAME_BYTES]);

enum { DP_TASK_UNKNOWN = -1, DP_TASK_RUNS = -2 };

/*
 * Returns the number of the system call in which the thread is blocked, and its first argument in *first. DP_TASK_RUNS:
 * the thread is in no system call. DP_TASK_UNKNOWN: the file cannot be read.
 */
long dp_task_call(int32_t tid, uintptr_t *first);

/* The same, with all arguments and the stack pointer. number: what dp_task_call returns. */
struct dp_task_call {
    long number;
    uintptr_t arguments[6], stack;
};
void dp_task_call_read(int32_t pid, int32_t tid, struct dp_task_call *);

/* How often the thread has left a processor; 0: not known. */
uint64_t dp_task_switches(int32_t pid, int32_t tid);

/* Whether only this process has the memory at an address: a private mapping. False also if that is not known. */
bool dp_task_has_alone(int32_t pid, uintptr_t address);

/* Whether there is no such thread any more, or only its exit status. */
bool dp_task_has_ended(int32_t pid, int32_t tid);

/* Whether a process handles signals, but for those of the C library; true also if that is not known. */
bool dp_task_has_handlers(int32_t pid);

/*
 * Calls fn for each entry of a directory whose name is a number, until one call returns other than 0: that is returned.
 * -errno: the directory cannot be read.
 */
typedef int (*dp_task_fn)(int32_t number, void *ctx);
int dp_task_list(const char *directory, dp_task_fn fn, void *ctx);

/* Reads digits of a base up to 16, and moves *at behind them. */
uintptr_t dp_task_number(const char **at, unsigned base);

/* The name of a system call in which threads often stay long; NULL: another one. */
const char *dp_task_call_name(long call);

/* ---- pipes ---- */

/* The inode of the pipe that a descriptor of a thread is; 0: it is none, or has a name. */
uint64_t dp_pipe_of(int32_t pid, int32_t tid, int descriptor);

/*
 * Calls fn for each process that has the end for writing, or for reading, of a pipe, until one call returns other than
 * 0: that is returned. Looks at the process `first` before the others. 1: the descriptors of some process cannot be
 * read, or no process has the end, or a descriptor is on its way through a socket of the session of process `of`, which
 * waits at the pipe.
 */
int dp_pipe_each_end(uint64_t pipe, bool for_writing, int32_t of, int32_t first, dp_task_fn fn, void *ctx);
