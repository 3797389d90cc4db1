/* SPDX-License-Identifier: MIT */
/*
 * host/locks/wait.h - sets up the recording of lock events, for recording.c. The hooks are declared in
 * <deltaprof/locks.h>; wait.c implements them.
 */
#pragma once

#include "config/config.h"

#include <stddef.h>

/* Maps the tables of locks. memory_bytes: the key `memory`. -ENOMEM: no holder will be known. Context: init. */
int dp_wait_init(size_t memory_bytes);

/* Adds the time of waits under way up to now to the block profile. To be called before each report of it. */
void dp_wait_count_under_way(void);

/*
 * In a process that has copied the tables of another one: reports count its waits that last for block_rate_ns or
 * longer, 0: none, and up to end_ns, when that process ended; 0: it lives.
 */
void dp_wait_adopt(int64_t block_rate_ns, int64_t end_ns);

/* Sets mutex_rate and block_rate from the next event on. A rate of 0, or `on` false: no new events. Any thread. */
void dp_wait_tune(const struct dp_config *conf, bool on);

/* In a forked child: clears the tables of locks. */
void dp_wait_fork_child(void);

/*
 * Returns the count that a wait of wait_ns adds to the block profile, and in *delay_ns the time. random: 64 uniform
 * bits. A wait of at least rate_ns adds 1 and its own time. A shorter one adds rate_ns with probability wait_ns /
 * rate_ns, so that the mean is exact; its count is then rate_ns / wait_ns, rounded up or down at random. 0: nothing is
 * recorded.
 */
int64_t dp_wait_weigh(int64_t wait_ns, int64_t rate_ns, uint64_t random, int64_t *delay_ns);
