/* SPDX-License-Identifier: MIT */
/*
 * base/clock.c - which clocks are read: the exact ones, or once the time stamp counter is trapped, the coarse ones.
 *
 * A thread whose counter is trapped (PR_SET_TSC) dies when it reads an exact clock. A coarse clock lags by up to a
 * kernel tick. It is set forward by more than that, so that a wait which began by the exact clock does not end before
 * its beginning.
 */
#include "base/clock.h"

#include "base/process.h"
#include "base/vdso.h"

#include <sys/syscall.h>
#include <unistd.h>

enum { AHEAD_NS = 20000000, TOGETHER_NS = 20000, MOMENT_TRIES = 20 };

struct dp_clocks dp_clocks = {CLOCK_MONOTONIC, CLOCK_REALTIME, 0};

static int ask_kernel(clockid_t id, struct timespec *t)
{
    return (int)syscall(SYS_clock_gettime, id, t);
}

static int look_up(clockid_t id, struct timespec *t);

/* Replaces itself. Relaxed: each thread that looks it up finds the same. */
static _Atomic dp_vdso_clock_fn read_clock = look_up;

static int look_up(clockid_t id, struct timespec *t)
{
    dp_vdso_clock_fn found = dp_vdso_clock();
    dp_store_relaxed(&read_clock, found ? found : ask_kernel);
    return found ? found(id, t) : ask_kernel(id, t);
}

DP_IN_CHILD int64_t dp_clock_read(clockid_t id)
{
    struct timespec t = {0};
    dp_load_relaxed (&read_clock)(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void dp_clock_moment(int64_t *mono_ns, int64_t *wall_ns)
{
    int64_t least_ns = INT64_MAX;
    for (int i = 0; i < MOMENT_TRIES && least_ns > TOGETHER_NS; i++) {
        int64_t before_ns = dp_clock_ns(), now_wall_ns = dp_clock_wall_ns(), between_ns = dp_clock_ns() - before_ns;
        if (between_ns < least_ns) {
            least_ns = between_ns;
            *mono_ns = before_ns + between_ns / 2;
            *wall_ns = now_wall_ns;
        }
    }
}

void dp_clock_avoid_counter(void)
{
    dp_store_relaxed(&dp_clocks.ahead_ns, AHEAD_NS);
    dp_store_relaxed(&dp_clocks.monotonic, CLOCK_MONOTONIC_COARSE);
    dp_store_relaxed(&dp_clocks.wall, CLOCK_REALTIME_COARSE);
}
