/* SPDX-License-Identifier: MIT */
/*
 * base/clock.c - which clocks are read: the exact ones, or once the time stamp counter is trapped, the coarse ones.
 *
 * A thread whose counter is trapped (PR_SET_TSC) dies when it reads an exact clock. A coarse clock lags by up to a
 * kernel tick. It is set forward by more than that, so that a wait which began by the exact clock does not end before
 * its beginning.
 */
#include "base/clock.h"

enum { AHEAD_NS = 20000000 };

struct dp_clocks dp_clocks = {CLOCK_MONOTONIC, CLOCK_REALTIME, 0};

void dp_clock_avoid_counter(void)
{
    dp_store_relaxed(&dp_clocks.ahead_ns, AHEAD_NS);
    dp_store_relaxed(&dp_clocks.monotonic, CLOCK_MONOTONIC_COARSE);
    dp_store_relaxed(&dp_clocks.wall, CLOCK_REALTIME_COARSE);
}
