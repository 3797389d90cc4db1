/* SPDX-License-Identifier: MIT */
/*
 * sink/tick.h - one tick: every kind's delta to the file sink, two-phase. What a sink did not take stays pending and
 * comes with the next tick.
 */
#pragma once

#include "base/config.h"

#include <stdbool.h>
#include <stdint.h>

/* conf->out is absolute, or "". Makes the directory; a failure is said in the log and changes nothing. Context: init.
 */
void dp_tick_init(const struct dp_config *conf);

/* Files are wanted at all. */
bool dp_tick_has_sink(void);

/*
 * Ticks in the calling thread, whose countdown is guarded. By deadline_ns (dp_clock_ns; INT64_MAX: none) another tick
 * under way must have ended, else -EBUSY. 0, or the first error. May open modules.
 */
int dp_tick(int64_t deadline_ns);
/* The same for a process that was forked to live shortly: no module is opened while all names are known already. */
int dp_tick_known(int64_t deadline_ns);
/* The same for an exit path: try-locks, modules already open, async-signal-safe. */
int dp_tick_last(int64_t deadline_ns);

/* Whether a tick that fails is to say that its profiles are lost: none follows it. */
void dp_tick_is_last(bool is);

/* From now on every tick, the agent's too, is done as dp_tick_last does it. Async-signal-safe. */
void dp_tick_in_handler(bool is);

/* For the talk at exit: files written by this process so far, and the directory. */
uint64_t dp_tick_files(void);
const char *dp_tick_directory(void);

/* A forked child: its parent's consumers and half-written files are abandoned. Only stores. */
void dp_tick_fork_child(void);
