/* SPDX-License-Identifier: MIT */
/* host/wall/watch.h - turns the profile of threads' lives on and off, and looks where they are. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The time between looks of a window where `wall_rate` is off. */
#define DP_WALL_PERIOD_NS INT64_C(100000000)

/* The time of `wall_rate`; 0: off, unless a window is open. Context: any thread, not a hook. */
void dp_wall_tune(int64_t period_ns);

/* Between begin and end the profile is on. Windows may overlap. */
void dp_wall_window_begin(int64_t period_ns);
void dp_wall_window_end(void);

/* The time between looks that is or was in force. */
int64_t dp_wall_profile_period_ns(void);

/*
 * Looks where threads are. Returns when to look again (dp_clock_ns); INT64_MAX: it is off. keeps: the calling thread
 * has a table of descriptors of its own, and is the only one that looks. Context: the background thread.
 */
int64_t dp_wall_look(bool keeps);

/*
 * To be called before the rows are read: brings the accounts up to now. all: CPU time that no sample stands for too, at
 * the end of a process or of a profile. Async-signal-safe.
 */
void dp_wall_settle(bool all);

/* Ends it for good: a seccomp filter may forbid what it calls. */
void dp_wall_forbid(void);

/* In a forked child, whose one thread begins a new life. */
void dp_wall_fork_child(void);
