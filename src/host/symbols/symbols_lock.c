/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/symbols_lock.c - the lock of the caches of names and mappings. After a fork the caches are still valid
 * in the child, unless a thread was changing them at the fork: then they are dropped.
 */
#include "host/symbols/symbols_lock.h"

#include "base/clock.h"
#include "base/epoch.h"
#include "base/lock.h"
#include "host/symbols/maps.h"
#include "host/symbols/shield.h"
#include "host/symbols/symbol.h"

#include <deltaprof/thread.h>

static struct dp_epoch_lock lock;
static const void *_Atomic holder; /* relaxed: a thread only compares it with itself */

int dp_symbols_lock(bool wait)
{
    int taken = dp_epoch_lock(&lock, wait);
    if (taken < 0)
        return taken;
    if (taken == 1) {
        dp_symbols_maps_abandon();
        dp_symbols_abandon();
    }
    dp_store_relaxed(&holder, &deltaprof_thread);
    return 0;
}

bool dp_symbols_lock_await(int64_t deadline_ns)
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

bool dp_symbols_unlock_crashed(void)
{
    if (!dp_symbols_shield_is_inside())
        return false;
    dp_symbols_unlock();
    return true;
}
