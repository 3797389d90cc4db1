/* SPDX-License-Identifier: MIT */
/*
 * host/agent/tick.h - performs one tick: writes the delta of every kind to the file sink, in two phases. If the sink
 * fails, the delta stays pending and comes with the next tick.
 */
#pragma once

#include "config/config.h"

#include <stdbool.h>
#include <stdint.h>

/* conf->out is absolute, or "". Creates the directory; a failure is only logged. Context: init. */
void dp_agent_tick_init(const struct dp_config *conf);

/* Whether files are written at all. */
bool dp_agent_tick_has_sink(void);

/*
 * Ticks in the calling thread, whose countdown is guarded. If another tick has not ended by deadline_ns (dp_clock_ns;
 * INT64_MAX: none), returns -EBUSY. Returns 0, or the first error. May open modules.
 */
int dp_agent_tick(int64_t deadline_ns);
/* The same for a short-lived forked process: no module is opened if all names are known. */
int dp_agent_tick_known(int64_t deadline_ns);
/* The same for an exit path: try-locks and open modules only, async-signal-safe. */
int dp_agent_tick_last(int64_t deadline_ns);

/*
 * For a crash handler. is_mine: whether the thread crashed inside a tick. crashed: then writes all but the profile that
 * was under way; a line says what is lost.
 */
bool dp_agent_tick_is_mine(void);
int dp_agent_tick_crashed(int64_t deadline_ns);

/* At exit: no tick follows, so a failed one is not logged as pending. */
void dp_agent_tick_set_last(bool is);
/* What a log line says of profiles that this process will not write: that they "are lost", or where they stay. */
const char *dp_agent_tick_lost_words(void);

/* While set, profiles have the comment #exit: the process begins to end, and no handler or destructor has run. */
void dp_agent_tick_set_exit(bool is);

/* Sampled bytes in use at the highest tick that was written; 0: none was. */
int64_t dp_agent_tick_highest(void);

/* Makes every later tick, the agent's too, work as dp_agent_tick_last does. Async-signal-safe. */
void dp_agent_tick_set_in_handler(bool is);

/* The time up to which files have all events of a kind (dp_clock_ns): of the last tick without an error, or the start.
 */
int64_t dp_agent_tick_covered_ns(unsigned kind);

/* Whether the last tick left nothing behind that a file should have. */
bool dp_agent_tick_is_delivered(void);

/*
 * After the last tick: the number of samples that other threads took since it began, among them allocations. Some may
 * be in its files. Context: the thread for which the tick was written.
 */
uint64_t dp_agent_tick_late_samples(void);

/* For the summary at exit: number of files written by this process, and the directory. */
uint64_t dp_agent_tick_files(void);
const char *dp_agent_tick_directory(void);

/* At the exit of a process without a sample: leaves a note in the directory. Async-signal-safe. */
void dp_agent_tick_note_no_sample(const char *text);

/* In a forked child: abandons its parent's consumers and unfinished files. Only stores. */
void dp_agent_tick_fork_child(void);
