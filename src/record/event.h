/* SPDX-License-Identifier: MIT */
/*
 * record/event.h - the hot corridor seen from the front desk: what starts, retunes and stops it. The hooks themselves
 * come in by <deltaprof/hooks.h>, whose functions event.c implements.
 */
#pragma once

#include "base/config.h"

/* Maps the tables within memory, once; later calls only retune. -ENOMEM: nothing. Context: init. */
int dp_record_init(const struct dp_config *conf);

/* Rates in force from the next drawn distance on. heap_rate 0, or `on` false: nothing new is sampled. Any thread. */
void dp_record_tune(const struct dp_config *conf, bool on);
int64_t dp_record_heap_rate(void);

/* 0 in the process that started; +1 with every fork on the way here. */
uint32_t dp_record_epoch(void);

/*
 * fork, in the order of pthread_atfork. The child's handler only stores: the counters' values at the fork become its
 * zero (dp_table keeps them as they are; consumers of the new epoch subtract dp_record_fork_base).
 */
void dp_record_fork_prepare(void);
void dp_record_fork_parent(void);
void dp_record_fork_child(void);

/* Bytes that passed the countdown so far, sampled or not: an estimate, for "no sample" messages. */
uint64_t dp_record_bytes_seen(void);
