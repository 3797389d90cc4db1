/* SPDX-License-Identifier: MIT */
/* host/cpu/proc.h - reads this process's threads and signals from /proc. Async-signal-safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * How many timers the profiler may have. Each timer holds one of the signals that may be queued for this user; the
 * profiler uses at most a quarter of those that others do not hold. n_timers: how many it has now.
 */
int32_t dp_cpu_proc_timers_max(int32_t n_timers);

/* How many signals may be queued (RLIMIT_SIGPENDING); UINT64_MAX: not known. */
uint64_t dp_cpu_proc_limit(void);

/*
 * Whether a thread blocks a signal that is pending for it. The kernel blocks the signal of a handler too, from before
 * its first instruction until it returns; but then the signal has been delivered.
 */
bool dp_cpu_proc_is_masked(int32_t tid, int sig);

/* Calls fn for each thread of the process; returns the sum of what it returned. -errno: there is no list. */
int dp_cpu_proc_threads(int (*fn)(int32_t tid, void *ctx), void *ctx);

/* The label with a thread's name, where samples carry it; else 0. */
uint32_t dp_cpu_proc_labels(int32_t tid);
