/* SPDX-License-Identifier: MIT */
/* host/locks/lock_rows.h - computes the rows of a profile, in which futexes appear as the locks that they are part of.
 */
#pragma once

#include "config/config.h"
#include "host/report/delta.h"
#include "host/symbols/symbol.h"

/*
 * dp_delta_scan, of a kind of lock profile. Rows of futexes are then taken together with the rows that show the same,
 * of futexes or not. Those of the mutex profile that are no locks are left out: they stay for a later scan, which may
 * know better. files: as of dp_lock_learn. 0 or -ENOMEM.
 */
int dp_lock_rows_scan(const struct dp_delta_rules *rules, unsigned locks, enum dp_symbolize symbolize,
                      struct dp_symbols_files *files, struct dp_baseline *base, struct dp_rows *rows);
