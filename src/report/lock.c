/* SPDX-License-Identifier: MIT */
/*
 * report/lock.c - what a fork does to the caches: names and mappings are still true in the child and stay, unless their
 * keeper was at work when the fork came; files that were open for symbols are let go in any case, since a report of
 * the parent may have been between two look-ups and will never close them here.
 */
#include "report/lock.h"

#include "report/epoch.h"
#include "report/maps.h"
#include "report/symbol.h"

static struct dp_epoch_lock lock;
static uint32_t epoch; /* of the caches; under the lock */

int dp_report_lock(bool wait)
{
    int taken = dp_epoch_take(&lock, wait);
    if (taken < 0)
        return taken;
    if (taken == 1) {
        dp_maps_abandon();
        dp_symbol_abandon();
    } else if (epoch != dp_epoch()) {
        dp_symbol_abandon_session();
    }
    epoch = dp_epoch();
    return 0;
}

void dp_report_unlock(void)
{
    dp_epoch_drop(&lock);
}
