/* SPDX-License-Identifier: MIT */
/*
 * report/lock.c - what a fork does to the caches: names and mappings are still true in the child and stay, unless their
 * keeper was at work when the fork came.
 */
#include "report/lock.h"

#include "report/epoch.h"
#include "report/maps.h"
#include "report/symbol.h"

static struct dp_epoch_lock lock;

int dp_report_lock(bool wait)
{
    int taken = dp_epoch_take(&lock, wait);
    if (taken < 0)
        return taken;
    if (taken == 1) {
        dp_maps_abandon();
        dp_symbol_abandon();
    }
    return 0;
}

void dp_report_unlock(void)
{
    dp_epoch_drop(&lock);
}
