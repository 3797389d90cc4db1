/* SPDX-License-Identifier: MIT */
/* host/locks/lock_rows.h - computes the rows of a lock profile: gives each futex its kind, and merges equal rows. */
#pragma once

#include "config/config.h"
#include "host/report/delta.h"
#include "host/symbols/symbol.h"

/*
 * Calls dp_delta_scan. Then merges rows that a profile would show as equal, if one of them is of a futex. In the mutex
 * and the chain profile it leaves out futexes that do not count as locks: a later scan may deliver them, when more is
 * known. files: as of dp_lock_learn. 0 or -ENOMEM.
 */
int dp_lock_rows_scan(const struct dp_delta_rules *rules, unsigned locks, enum dp_symbolize symbolize,
                      struct dp_symbols_files *files, struct dp_baseline *base, struct dp_rows *rows);
