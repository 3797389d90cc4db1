/* SPDX-License-Identifier: MIT */
/*
 * host/cpu/watch.h - turns the profile of CPU time on and off, meets threads that no hook saw, and adds to the rows
 * what the samples lack.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The period of a window where `cpu_rate` is off. */
#define DP_CPU_PERIOD_NS INT64_C(10000000)

/* The period of `cpu_rate`; 0: off, unless a window is open. Context: any thread, not a hook. */
void dp_cpu_tune(int64_t period_ns);

/*
 * Between begin and end the profile is on, at the period of `cpu_rate` or, if that is off, at period_ns. Windows may
 * overlap. end adds the rests of all clocks to the rows, if it is the last and `cpu_rate` is off.
 */
void dp_cpu_window_begin(int64_t period_ns);
void dp_cpu_window_end(void);

/* The period in force; while the profile is off, the last one that was. */
int64_t dp_cpu_profile_period_ns(void);

/* Looks for threads that began or ended unseen. Returns when to look again (dp_clock_ns); INT64_MAX: it is off. */
int64_t dp_cpu_look(void);

/*
 * To be called before the rows are read. Adds the time of threads that are gone, are masked, or cannot be timed. all:
 * of each thread the rest since its last sample too, so that the rows sum to the CPU clocks: at the end of a process or
 * of a profile. Async-signal-safe.
 */
void dp_cpu_settle(bool all);

/*
 * Around the profiler's own work in a thread that may be one of the program's: its time is [deltaprof]. begin returns
 * what end needs. Async-signal-safe.
 */
bool dp_cpu_own_work_begin(void);
void dp_cpu_own_work_end(bool blocked);

/* Ends all timers for good: a seccomp filter may forbid what the handler calls. */
void dp_cpu_forbid(void);

/* A thread was cancelled by libc, which may have installed its handler. Async-signal-safe. */
void dp_cpu_cancelled(void);

/* In a forked child, which has no timers. Its thread is timed again. */
void dp_cpu_fork_child(void);
