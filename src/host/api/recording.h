/* SPDX-License-Identifier: MIT */
/* host/api/recording.h - starts, changes and stops the recording of events, for the core. */
#pragma once

#include "config/config.h"

#include <deltaprof/deltaprof.h>
#include <stdbool.h>

/*
 * Maps the tables within `memory`, once; later calls only change settings. -ENOMEM: nothing is recorded. Context: init.
 */
int dp_record_init(const struct dp_config *conf);

/* Sets the rates, from the next event on. A rate of 0, or `on` false: no new events of that kind. Any thread. */
void dp_record_tune(const struct dp_config *conf, bool on);

/* Fork handlers, in the order of pthread_atfork. The child's handler only stores. */
void dp_record_fork_prepare(void);
void dp_record_fork_parent(void);
void dp_record_fork_child(void);
