/* SPDX-License-Identifier: MIT */
/*
 * symbols/lock.c - what a fork does to the caches: names and mappings are still true in the child and stay, unless
 * their keeper was at work when the fork came.
 */
#include "symbols/lock.h"

#include "base/clock.h"
#include "base/epoch.h"
#include "base/lock.h"
#include "symbols/maps.h"
#include "symbols/symbol.h"

#include <deltaprof/hooks.h>

static struct dp_epoch_lock lock;
static const void *_Atomic holder; /* relaxed: a thread asks only whether it is itself */

int dp_symbols_lock(bool wait)
{
    int taken = dp_epoch_lock(&lock, wait);
    if (taken < 0)
        return taken;
    if (taken == 1) {
        dp_maps_abandon();
        dp_symbol_abandon();
    }
    dp_store_relaxed(&holder, &deltaprof_thread);
    return 0;
}

bool dp_report_lock_await(int64_t deadline_ns)
{
    static _Atomic uint32_t never;
    int64_t now = dp_clock_ns(), next = now + 1000000;
    if (now >= deadline_ns || dp_load_relaxed(&holder) == (const void *)&deltaprof_thread)
        return false;
    dp_futex_wait(&never, 0, next < deadline_ns ? next : deadline_ns);
    return true;
}

void dp_symbols_unlock(void)
{
    dp_store_relaxed(&holder, NULL);
    dp_epoch_unlock(&lock);
}
