/* SPDX-License-Identifier: MIT */
/*
 * host/locks/wait.h - starts, changes and forks the recording of lock events, for recording.c. The hooks themselves are
 * declared in <deltaprof/locks.h>; wait.c implements them.
 */
#pragma once

#include "config/config.h"

#include <stddef.h>

/* Maps the tables of locks within memory_bytes. -ENOMEM: no holder will be known. Context: init. */
int dp_wait_init(size_t memory_bytes);

/* Counts the waits that go on up to now, in the block profile. Before each report of it. */
void dp_wait_count_under_way(void);

/* Sets mutex_rate and block_rate, from the next event on; a rate of 0, or `on` false: no new events. Any thread. */
void dp_wait_tune(const struct dp_config *conf, bool on);

void dp_wait_fork_child(void);

/*
 * The time that a wait of wait_ns adds to the block profile, given a uniform random number. A wait of at least rate_ns
 * adds itself. A shorter one adds rate_ns with probability wait_ns / rate_ns, so that the mean is exact; its count is
 * then rate_ns / wait_ns, rounded up or down at random. 0: not recorded.
 */
int64_t dp_wait_weigh(int64_t wait_ns, int64_t rate_ns, uint64_t random, int64_t *delay_ns);
