/* SPDX-License-Identifier: MIT */
/* The signal of the timers is added to a set, and removed; no other signal of the set changes. */
#include "support/unit.h"
#include <signal.h>
#include <string.h>

#include "base/atomic.h"
#include "host/cpu/shared_signal.h"
#include "host/cpu/timers.h"

/* A set as the kernel has it: signal n is bit n - 1. */
static uint64_t bits_of(const sigset_t *set)
{
    uint64_t bits;
    memcpy(&bits, set, sizeof bits);
    return bits;
}

static uint64_t set_after(void (*change)(sigset_t *), int sig, uint64_t before)
{
    sigset_t set;
    sigemptyset(&set);
    memcpy(&set, &before, sizeof before);
    dp_store_relaxed(&dp_cpu_state.sig, sig);
    change(&set);
    return bits_of(&set);
}

TEST(only_the_signal_of_the_timers_is_added)
{
    for (int sig = 1; sig <= 64; sig++) {
        uint64_t bit = (uint64_t)1 << (sig - 1);
        assert_int_equal(set_after(dp_cpu_signal_add, sig, 0), bit);
        assert_int_equal(set_after(dp_cpu_signal_add, sig, ~bit), ~(uint64_t)0);
    }
    assert_int_equal(set_after(dp_cpu_signal_add, 0, 5), 5); /* there is none */
}

TEST(only_the_signal_of_the_timers_is_removed)
{
    for (int sig = 1; sig <= 64; sig++) {
        uint64_t bit = sig == SIGPROF ? 0 : (uint64_t)1 << (sig - 1); /* the program may have blocked that one itself */
        assert_int_equal(set_after(dp_cpu_signal_remove, sig, ~(uint64_t)0), ~bit);
        assert_int_equal(set_after(dp_cpu_signal_remove, sig, 0), 0);
    }
    assert_int_equal(set_after(dp_cpu_signal_remove, 0, 5), 5);
}

UNIT(NULL, NULL)
