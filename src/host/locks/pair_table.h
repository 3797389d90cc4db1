/* SPDX-License-Identifier: MIT */
/*
 * host/locks/pair_table.h - which stacks made which stacks wait: the largest pairs of a waiter and a holder.
 *
 * A pair is a record of the block profile and one of the mutex profile, with the time that the first waited while the
 * second held the lock. The table has a fixed size and keeps the pairs with most time.
 */
#pragma once

#include "host/table/table.h"

#include <stdbool.h>

enum { DP_PAIRS_MOST = 512 };

/* Counters only grow while the generation is the same. */
struct dp_pair {
    dp_record_id waiter, holder;
    uint32_t generation;
    uint32_t at; /* its number in the table */
    int64_t n, ns;
};

/* -ENOMEM: no pairs are kept. Context: init. */
int dp_pairs_init(void);

/* Adds to a pair. Context: hook, with the countdown guarded; async-signal-safe. */
void dp_pairs_note(dp_record_id waiter, dp_record_id holder, int64_t n, int64_t ns);

/* Reads pair i, below DP_PAIRS_MOST. False: there is none, or other threads changed it all the time. Any thread. */
bool dp_pairs_read(unsigned i, struct dp_pair *pair);

/* Forgets all pairs in a forked child: one madvise. */
void dp_pairs_fork_child(void);
