/* SPDX-License-Identifier: MIT */
/*
 * process_events.c - the functions by which the interposers report what happens to the process: threads that begin and
 * end, libraries that are closed, seccomp filters, signal handlers, and its end.
 *
 * Under a seccomp filter even getpid() may be fatal, and a child of vfork has its parent's memory: there all of them do
 * nothing (dp_core_is_disabled).
 */
#include <deltaprof/deltaprof.h>
#include <deltaprof/interpose.h>
#include <deltaprof/thread.h>

#include "host/api/core.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "host/cpu/timers.h"
#include "host/cpu/watch.h"
#include "host/wall/threads.h"
#include "host/wall/watch.h"
#include "host/http/endpoint.h"
#include "host/http/listen.h"
#include "endpoint/socket.h"
#include "host/objects/frames.h"
#include "host/shared/shared.h"
#include "host/table/labels.h"
#include "host/api/recording.h"
#include "host/agent/agent.h"
#include "host/agent/alone.h"
#include "host/agent/exit.h"
#include "host/agent/helper.h"
#include "host/agent/signals.h"
#include "host/agent/tick.h"
#include "host/thread/sigstack.h"
#include "host/thread/thread.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HELPER_NS 2000000000 /* the longest that the program waits for a command that is being carried out */

/* Creates the threads that are needed and missing. True: at least one was created. */
static bool make_threads(void)
{
    int saved = errno;
    int64_t kept = deltaprof_guard_enter();
    bool agent = dp_agent_start() > 0, listen = dp_http_listen_start();
    deltaprof_guard_exit(kept);
    errno = saved;
    return agent || listen;
}

void deltaprof_poll(void)
{
    if (dp_commands_poll() || !dp_agent_needs_poll() || !dp_agent_may_poll() || dp_core_is_disabled())
        return;
    if (dp_process_threads() == 1)
        make_threads();
    else
        dp_agent_poll_later();
}

bool deltaprof_before_thread_create(void)
{
    bool inside_hook = deltaprof_is_guarded();
    if (!inside_hook)
        dp_commands_before_thread_create();
    return deltaprof_poll_wanted && !inside_hook && !dp_core_is_disabled() && make_threads();
}

bool deltaprof_thread_start_wanted(void)
{
    return dp_thread_sigstack_is_wanted() || dp_cpu_is_on() || dp_wall_is_on();
}

void deltaprof_thread_start(void)
{
    dp_thread_start();
    if (dp_cpu_is_on())
        dp_cpu_thread_begins();
    if (dp_wall_is_on())
        dp_wall_thread_begins();
}

void deltaprof_thread_cancelled(void)
{
    if (!dp_core_is_disabled())
        dp_cpu_cancelled();
}

bool deltaprof_exit_is_watched(void)
{
    return dp_load_relaxed(&dp_core.state) == DP_CORE_RUNNING && dp_agent_tick_has_sink();
}

bool deltaprof_has_samples(void)
{
    return dp_stats_read(DP_STAT_SAMPLES) != 0;
}

void deltaprof_before_handlers(void)
{
    if (!dp_core_is_disabled())
        dp_agent_exit_before_handlers();
}

void deltaprof_before_exit(void)
{
    dp_agent_exit_deliver(false);
}

void deltaprof_exit_begins(void)
{
    if (!dp_core_is_disabled())
        dp_agent_exit_begins();
}

void deltaprof_exit_cancelled(void)
{
    if (!dp_core_is_disabled()) /* a child of vfork has its parent's memory */
        dp_agent_exit_cancelled();
}

__attribute__((destructor)) static void at_exit(void)
{
    dp_agent_exit_deliver(true);
    dp_agent_forbid();
    dp_http_socket_remove_file();
}

/* Objects are retired in the tables, so these must be this process's. */
void deltaprof_unload_begin(void)
{
    if (deltaprof_has_samples() && !dp_core_is_disabled())
        (void)dp_shared_may_write();
    dp_objects_unload_begin();
}

void deltaprof_unload_end(void)
{
    dp_objects_unload_end();
}

bool deltaprof_has_threads(void)
{
    return dp_agent_is_running() || dp_http_listen_is_running();
}

/*
 * Ends the library's threads. blocks: no thread creates them before deltaprof_restrict_end. Unless by_any, they end
 * only if the calling thread is the main thread or their creator.
 */
static void stop_threads(bool by_any, bool blocks)
{
    if (dp_commands_are_on() && !dp_agent_is_self() && dp_process_is_noted())
        dp_agent_helper_wait(dp_clock_ns() + HELPER_NS);
    if (dp_core_is_disabled() || dp_agent_is_self())
        return;
    int saved = errno;
    int64_t kept = deltaprof_guard_enter();
    int64_t deadline_ns = dp_agent_exit_deadline();
    int32_t self = (int32_t)syscall(SYS_gettid);
    if (blocks)
        dp_agent_block_starts(deadline_ns);
    if (by_any || self == dp_process_pid() || self == dp_agent_maker()) {
        bool agent = dp_agent_is_running(), listen = dp_http_listen_stop(deadline_ns);
        if (agent && !dp_agent_quiesce(deadline_ns)) {
            dp_agent_end_late();
            dp_log(DP_LOG_ERROR, "the background thread is stuck while it writes a profile, and ends after that; the "
                                 "program continues");
        }
        if (agent || listen)
            dp_store_relaxed(&dp_core.paused, true);
    }
    deltaprof_guard_exit(kept);
    errno = saved;
}

void deltaprof_stop_agent(void)
{
    stop_threads(true, false);
}

void deltaprof_resume(void)
{
    if (dp_core_is_disabled() || dp_agent_is_self() || dp_agent_is_blocked())
        return;
    if (dp_load_relaxed(&dp_core.paused) && dp_swap_acq_rel(&dp_core.paused, false))
        make_threads();
}

void deltaprof_restrict_begin(bool by_any)
{
    stop_threads(by_any, true);
}

void deltaprof_restrict_end(void)
{
    if (!dp_core_is_disabled() && !dp_agent_is_self() && dp_agent_unblock_starts())
        deltaprof_resume();
}

void deltaprof_before_thread_exit(void)
{
    bool has_commands = dp_commands_are_on() && !dp_process_has_seccomp() && dp_process_is_noted();
    if ((dp_core_is_disabled() && !has_commands) || syscall(SYS_gettid) != getpid() || dp_agent_alone_has_main_exited())
        return;
    int64_t kept = deltaprof_guard_enter();
    dp_agent_alone_main_exits();
    dp_http_listen_before_thread_exit();
    dp_agent_before_thread_exit(dp_agent_exit_deadline());
    deltaprof_guard_exit(kept);
}

void deltaprof_before_tsc_trap(void)
{
    dp_clock_avoid_counter();
    deltaprof_before_seccomp();
}

void deltaprof_before_seccomp(void)
{
    bool is_off = dp_commands_are_on() && dp_load_relaxed(&dp_core.state) == DP_CORE_IDLE;
    if (dp_commands_are_on() && !dp_agent_is_self() && dp_process_is_noted())
        dp_commands_forbid(dp_clock_ns() + HELPER_NS);
    if (is_off && dp_load_relaxed(&dp_core.state) == DP_CORE_IDLE)
        dp_process_note_seccomp();
    if (dp_core_is_disabled() || dp_agent_is_self())
        return;
    if (!dp_process_note_seccomp())
        return; /* another thread is doing it */
    int saved = errno;
    int64_t kept = deltaprof_guard_enter();
    int64_t deadline_ns = dp_agent_exit_deadline();
    dp_wall_forbid();
    dp_cpu_forbid();
    dp_agent_forbid();
    dp_http_listen_forbid(deadline_ns);
    dp_agent_exit_forbid();
    if (!dp_agent_finish(deadline_ns) && !dp_agent_is_running())
        dp_agent_tick(deadline_ns);
    dp_agent_quiesce(deadline_ns);
    dp_agent_signals_restore();
    dp_lock_lock(&dp_core.lock);
    dp_core_conf.thread = false; /* a name costs a system call */
    dp_labels_add(false, dp_core_conf.trace);
    if (dp_core.alone)
        dp_core_tune(&dp_core_conf,
                     false); /* no sink could write the records, and walking a stack needs system calls */
    dp_lock_unlock(&dp_core.lock);
    if (dp_agent_tick_has_sink() && (dp_core_conf.heap_rate || dp_core_conf.mutex_rate || dp_core_conf.block_rate_ns))
        dp_log(DP_LOG_ERROR,
               "the program installs a seccomp filter or traps the clock (PR_SET_TSC); no more profiles are written");
    dp_log_before_seccomp();
    dp_thread_never_wait();
    deltaprof_guard_exit(kept);
    errno = saved;
}

int deltaprof_sigaltstack(const stack_t *stack, stack_t *old, deltaprof_sigaltstack_fn real)
{
    return dp_agent_signals_stack(stack, old, real);
}

int deltaprof_sigaction(int sig, const struct sigaction *act, struct sigaction *old, deltaprof_sigaction_fn real)
{
    return dp_agent_signals_action(sig, act, old, real);
}
