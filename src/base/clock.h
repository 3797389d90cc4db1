/* SPDX-License-Identifier: MIT */
/* base/clock.h - reads clocks in nanoseconds; vDSO calls, allowed in hooks. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline int64_t dp_clock_read(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* CLOCK_MONOTONIC: for waits and durations. */
static inline int64_t dp_clock_ns(void)
{
    return dp_clock_read(CLOCK_MONOTONIC);
}

/* CLOCK_MONOTONIC at the kernel tick's resolution, a quarter of the price. */
static inline int64_t dp_clock_coarse_ns(void)
{
    return dp_clock_read(CLOCK_MONOTONIC_COARSE);
}

/* CLOCK_REALTIME: for time_nanos. */
static inline int64_t dp_clock_wall_ns(void)
{
    return dp_clock_read(CLOCK_REALTIME);
}

/* The same at the kernel tick's resolution. Neither coarse clock reads the time stamp counter, which a program may have
 * trapped (PR_SET_TSC). */
static inline int64_t dp_clock_wall_coarse_ns(void)
{
    return dp_clock_read(CLOCK_REALTIME_COARSE);
}
