/* SPDX-License-Identifier: MIT */
/* host/api/core.h - the state of the core, which deltaprof.c starts and changes, and process_events.c reads. */
#pragma once

#include "host/api/commands.h"

#include "base/lock.h"
#include "base/process.h"
#include "config/config.h"

enum { DP_CORE_IDLE, DP_CORE_RUNNING, DP_CORE_STOPPED };

extern struct dp_core {
    struct dp_lock lock;
    _Atomic int state;
    bool initialized; /* tables and handlers exist */
    bool watches_forks;
    bool is_forking; /* fork_prepare took the lock */
    _Atomic unsigned hooks;
    bool alone;          /* started by a preload: only the library's own sinks take deltas */
    _Atomic bool paused; /* deltaprof_stop_agent ended threads; deltaprof_resume creates them again */
} dp_core;
extern struct dp_config dp_core_conf;

/*
 * Starts the profiler in a process that is off, with keys added to its configuration. 0; 1: `exe` excludes this
 * program; -EALREADY: it is on; or a negative errno, with error filled if a key is wrong. Context: a thread of the
 * library.
 */
int dp_core_turn_on(const char *keys, struct dp_config_error *error);

/* Registers the handlers of fork, once. Under the lock. Returns 0 or a negative errno. */
int dp_core_watch_forks(void);

/*
 * Sets up the tables, for a runtime that uses records.h without deltaprof_start: its stacks need frames and mappings
 * too. Does nothing if they exist. It reports no error: callers notice missing tables.
 */
void dp_core_init_once(void);

/* dp_record_tune, and says in the table's file which kinds are recorded from now on. Any thread. */
void dp_core_tune(const struct dp_config *conf, bool on);

/*
 * Whether the profiler must do nothing: not started; under seccomp, where even getpid() may be fatal; in a child of
 * vfork.
 */
static inline bool dp_core_is_disabled(void)
{
    return dp_load_relaxed(&dp_core.state) == DP_CORE_IDLE || dp_process_has_seccomp() || !dp_process_is_noted();
}
