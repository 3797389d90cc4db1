/* SPDX-License-Identifier: MIT */
/*
 * record/record.h - what starts, retunes and stops the recording of events, seen from the core.
 */
#pragma once

#include "base/config.h"

#include <deltaprof/deltaprof.h>
#include <stdbool.h>

/* Maps the tables within memory, once; later calls only retune. -ENOMEM: nothing. Context: init. */
int dp_record_init(const struct dp_config *conf);

/* Rates in force from the next event on. A rate of 0, or `on` false: nothing new is recorded. Any thread. */
void dp_record_tune(const struct dp_config *conf, bool on);

/* fork, in the order of pthread_atfork. The child's handler only stores. */
void dp_record_fork_prepare(void);
void dp_record_fork_parent(void);
void dp_record_fork_child(void);

/* What stats of the tables stand at now: samples, records, live and the losses; the rest of *stats is left alone. */
void dp_record_stats(struct deltaprof_stats *stats);
