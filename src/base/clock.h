/* SPDX-License-Identifier: MIT */
/*
 * base/clock.h - reads clocks in nanoseconds, as the kernel tells them. clock_gettime is not called: a program or
 * another preloaded library may have one of its own, which tells another time, or waits for a lock. Allowed in hooks.
 */
#pragma once

#include "base/atomic.h"

#include <stdint.h>
#include <time.h>

/* Relaxed: a thread whose counter is trapped has made the change itself, or was created after it. */
extern struct dp_clocks {
    _Atomic clockid_t monotonic, wall;
    _Atomic int64_t ahead_ns; /* added to monotonic: 0, or with a coarse clock more than it lags */
} dp_clocks;

/* To be called before a thread's time stamp counter is trapped. For the life of the process. */
void dp_clock_avoid_counter(void);

int64_t dp_clock_read(clockid_t id);

/* CLOCK_MONOTONIC: for waits and durations. */
static inline int64_t dp_clock_ns(void)
{
    clockid_t id = dp_load_relaxed(&dp_clocks.monotonic);
    return dp_clock_read(id) + dp_load_relaxed(&dp_clocks.ahead_ns);
}

/* CLOCK_MONOTONIC at the kernel tick's resolution, a quarter of the price. */
static inline int64_t dp_clock_coarse_ns(void)
{
    return dp_clock_read(CLOCK_MONOTONIC_COARSE);
}

/* CLOCK_REALTIME: for time_nanos. */
static inline int64_t dp_clock_wall_ns(void)
{
    return dp_clock_read(dp_load_relaxed(&dp_clocks.wall));
}

/* The same at the kernel tick's resolution. Neither coarse clock reads the time stamp counter, which a program may have
 * trapped (PR_SET_TSC). */
static inline int64_t dp_clock_wall_coarse_ns(void)
{
    return dp_clock_read(CLOCK_REALTIME_COARSE);
}

/*
 * The present moment on CLOCK_MONOTONIC and CLOCK_REALTIME. A thread that was stopped between the two reads them again,
 * so that a time of one clock can be told on the other one.
 */
void dp_clock_moment(int64_t *mono_ns, int64_t *wall_ns);
