/* SPDX-License-Identifier: MIT */
/*
 * record/wait.h - lock events seen from record.c: what starts, retunes and forks them. The hooks themselves come in by
 * <deltaprof/hooks.h>, whose lock functions wait.c implements.
 */
#pragma once

#include "base/config.h"

/* Maps the table of contended locks. -ENOMEM: every holder stays unknown. Context: init. */
int dp_wait_init(void);

/* mutex_rate and block_rate from the next event on; a rate of 0, or `on` false: nothing new is recorded. Any thread. */
void dp_wait_tune(const struct dp_config *conf, bool on);

void dp_wait_fork_child(void);

/*
 * What a wait of wait_ns adds to the block profile, given a uniform random number: one that lasted at least rate_ns
 * itself, a shorter one rate_ns with probability wait_ns / rate_ns, so that the mean is exact. The count that goes with
 * it is rate_ns / wait_ns, rounded up or down at random. 0: nothing.
 */
int64_t dp_wait_weigh(int64_t wait_ns, int64_t rate_ns, uint64_t random, int64_t *delay_ns);
