/* SPDX-License-Identifier: MIT */
/*
 * host/locks/pair_comments.h - writes the largest pairs of waiters and holders as comments of a lock profile.
 *
 *     #pair n=3 ns=12034567 waiter=4,9,2 holder=7,2 locations=11
 *
 * The stack `waiter` waited for ns while the stack `holder` held the lock, which unlocked it n times meanwhile. Stacks
 * are ids of the profile's locations, leaf first; both profiles have the same pairs. `locations` is how many locations
 * the profile has: a program that renumbers locations and keeps comments changes the number, and readers leave out its
 * pairs.
 */
#pragma once

#include "host/locks/pair_rows.h"
#include "host/report/location.h"

#define DP_PAIRS_WRITTEN 64

/* locks: as of dp_delta_scan. Errors are those of the locations and of encode. Context: report. */
void dp_pairs_write(const struct dp_pair_rows *rows, unsigned locks, struct dp_locations *l, struct dp_encode *encode);
