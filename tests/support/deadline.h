/* SPDX-License-Identifier: MIT */
/* tests/support/deadline.h - times in the future, for calls that wait until a time. */
#pragma once

#include <stdint.h>
#include <time.h>

/* The time of the clock that is ns from now. */
static inline struct timespec time_after(clockid_t clock, int64_t ns)
{
    struct timespec t;
    clock_gettime(clock, &t);
    ns += t.tv_nsec;
    t.tv_sec += ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    return t;
}
