/* SPDX-License-Identifier: MIT */
/* host/wall/watch.h - turns the profile of threads' time on and off, and looks where the threads are. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The time between looks in a window, if `wall_rate` is off. */
#define DP_WALL_PERIOD_NS INT64_C(100000000)

/* Sets the time between looks (`wall_rate`); 0: off, unless a window is open. Context: any thread, not a hook. */
void dp_wall_tune(int64_t period_ns);

/* Between begin and end the profile is on, with period_ns between looks if `wall_rate` is off. Windows may overlap. */
void dp_wall_window_begin(int64_t period_ns);
void dp_wall_window_end(void);

/* The time between looks; if the profile is off, the last one. */
int64_t dp_wall_profile_period_ns(void);

/*
 * Looks where threads are. Returns when to look again (dp_clock_ns); INT64_MAX: the profile is off. keeps: files may be
 * kept open (place.c): the calling thread has a descriptor table of its own, and no other thread looks. Context: the
 * background thread.
 */
int64_t dp_wall_look(bool keeps);

/*
 * Brings all accounts up to now; to be called before the rows are read. all: the process or the profile ends, so CPU
 * time without a CPU sample is added too. Async-signal-safe.
 */
void dp_wall_settle(bool all);

/* Turns the profile off for good: a seccomp filter may forbid its system calls. */
void dp_wall_forbid(void);

/* In a forked child: adds its one thread, whose time begins there. */
void dp_wall_fork_child(void);
