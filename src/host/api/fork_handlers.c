/* SPDX-License-Identifier: MIT */
/*
 * host/api/fork_handlers.c - the profiler's only handlers of fork. In the child each room unlocks its locks and drops
 * its parent's state by plain stores; nothing is allocated, freed, waited for or sent.
 */
#include "host/api/core.h"

#include "base/clock.h"
#include "base/log.h"
#include "host/agent/agent.h"
#include "host/agent/alone.h"
#include "host/agent/exit.h"
#include "host/agent/signals.h"
#include "host/agent/tick.h"
#include "host/api/recording.h"
#include "host/cpu/watch.h"
#include "host/http/endpoint.h"
#include "host/http/listen.h"
#include "host/report/profile.h"
#include "host/report/settings.h"
#include "host/wall/watch.h"

#include <deltaprof/interpose.h>
#include <deltaprof/thread.h>

#include <pthread.h>

#define FORK_WAIT_NS 100000000

/*
 * A process that forks again and again may have thousands of workers that live for milliseconds. It learns for them at
 * its 4th fork, and at its 16th, 64th, and so on, because libraries may have been opened since. Most processes fork
 * fewer children, or record nothing themselves, and then their children seldom do.
 */
static void learn_for_children(void)
{
    static _Atomic uint32_t n_forks; /* relaxed: only counts */
    uint32_t n = dp_add_relaxed(&n_forks, 1) + 1;
    bool is_power_of_4 = !(n & (n - 1)) && n & 0x55555555;
    if (n < 4 || !is_power_of_4 || dp_core_is_disabled() || !dp_agent_tick_has_sink() || !deltaprof_has_samples())
        return;
    int64_t kept = deltaprof_guard_enter();
    dp_report_learn_for_children();
    deltaprof_guard_exit(kept);
}

/*
 * Where commands may come, another thread may be setting up the tables, and the child would get half of them. So fork
 * waits for it, for a moment: this thread may hold what the other one waits for.
 */
static void fork_prepare(void)
{
    if (dp_commands_are_on() && dp_lock_lock_until(&dp_core.lock, dp_clock_ns() + FORK_WAIT_NS))
        dp_core.is_forking = true;
    if (!dp_core.initialized)
        return;
    learn_for_children();
    dp_report_fork_prepare();
    int64_t kept = deltaprof_guard_enter();
    dp_record_fork_prepare();
    deltaprof_guard_exit(kept);
}

static void fork_parent(void)
{
    if (dp_core.initialized)
        dp_record_fork_parent();
    if (dp_core.is_forking && dp_lock_is_mine(&dp_core.lock)) {
        dp_core.is_forking = false;
        dp_lock_unlock(&dp_core.lock);
    }
}

DP_IN_CHILD static void fork_child(void)
{
    dp_process_note();
    dp_commands_fork_child();
    if (dp_core.initialized) {
        dp_record_fork_child();
        dp_cpu_fork_child();
        dp_wall_fork_child();
        dp_report_fork_child();
        dp_agent_tick_fork_child();
        dp_http_endpoint_fork_child();
        dp_http_listen_fork_child();
        dp_agent_alone_fork_child();
        dp_agent_fork_child();
        dp_agent_exit_fork_child();
        dp_agent_signals_fork_child();
    }
    dp_log_fork_child();
    dp_store_relaxed(&dp_core.paused, false);
    dp_core.is_forking = false;
    dp_lock_reset(&dp_core.lock);
}

int dp_core_watch_forks(void)
{
    int err = dp_core.watches_forks ? 0 : -pthread_atfork(fork_prepare, fork_parent, fork_child);
    if (err == 0)
        dp_core.watches_forks = true;
    return err;
}
