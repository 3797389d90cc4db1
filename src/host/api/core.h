/* SPDX-License-Identifier: MIT */
/* host/api/core.h - the state of the core, which deltaprof.c starts and changes, and process_events.c reads. */
#pragma once

#include "base/lock.h"
#include "base/process.h"
#include "config/config.h"

enum { DP_CORE_IDLE, DP_CORE_RUNNING, DP_CORE_STOPPED };

extern struct dp_core {
    struct dp_lock lock;
    _Atomic int state;
    bool initialized; /* tables and handlers exist */
    _Atomic unsigned hooks;
    bool alone;          /* started by a preload: only the library's own sinks take deltas */
    _Atomic bool paused; /* deltaprof_stop_agent ended threads; deltaprof_resume creates them again */
} dp_core;
extern struct dp_config dp_core_conf;

/*
 * Sets up the tables, for a runtime that uses records.h without deltaprof_start: its stacks need frames and mappings
 * too. Does nothing if they exist. It reports no error: callers notice missing tables.
 */
void dp_core_init_once(void);

/*
 * Whether the profiler must do nothing: not started; under seccomp, where even getpid() may be fatal; in a child of
 * vfork.
 */
static inline bool dp_core_is_disabled(void)
{
    return dp_load_relaxed(&dp_core.state) == DP_CORE_IDLE || dp_process_has_seccomp() || !dp_process_is_noted();
}
