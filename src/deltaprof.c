/* SPDX-License-Identifier: MIT */
/*
 * deltaprof.c - the core: the public API except deltas (deltas.c). It is the only file that uses all rooms.
 *
 * A process is IDLE, RUNNING or STOPPED. The first start maps the tables and registers handlers, in an order in which
 * each step can rely on the earlier ones; a later start only changes rates. `exe` is checked first: in an excluded
 * program nothing is done but parsing the configuration.
 *
 * fork: the handlers here are the only ones. In the child each room unlocks its locks and drops its parent's state by
 * plain stores; nothing is allocated, freed, waited for or sent.
 */
#include <deltaprof/deltaprof.h>
#include <deltaprof/hooks.h>

#include "core.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/settings.h"
#include "base/stats.h"
#include "base/text.h"
#include "http/endpoint.h"
#include "http/listen.h"
#include "objects/frames.h"
#include "record/heap.h"
#include "record/heaps.h"
#include "record/record.h"
#include "report/profile.h"
#include "sink/agent.h"
#include "sink/exit.h"
#include "sink/signals.h"
#include "sink/tick.h"
#include "symbols/loader_sync.h"
#include "unwind/unwind.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { IDLE, RUNNING, STOPPED };

static struct {
    struct dp_lock lock;
    _Atomic int state;
    bool initialized; /* tables and handlers exist */
    struct dp_config conf;
    _Atomic unsigned hooks;
    bool alone;           /* started by a preload: only the library's own sinks take deltas */
    _Atomic bool seccomp; /* inherited by children, as filters are */
    _Atomic bool paused;  /* deltaprof_stop_agent ended threads; deltaprof_resume creates them again */
} core;

const char *deltaprof_version(void)
{
    return DELTAPROF_VERSION;
}

/* ---- fork ------------------------------------------------------------------------------------------------------- */

static void fork_prepare(void)
{
    dp_report_fork_prepare();
    dp_record_fork_prepare();
}

static void fork_parent(void)
{
    dp_record_fork_parent();
}

static void fork_child(void)
{
    dp_process_note();
    dp_record_fork_child();
    dp_report_fork_child();
    dp_tick_fork_child();
    dp_endpoint_fork_child();
    dp_listen_fork_child();
    dp_agent_fork_child();
    dp_exit_fork_child();
    dp_signals_fork_child();
    dp_log_fork_child();
    dp_store_relaxed(&core.paused, false);
    dp_lock_reset(&core.lock);
}

/* ---- start ------------------------------------------------------------------------------------------------------ */

/* Sets up what lasts for the life of the process; runs once. */
static int init_once(const struct dp_config *conf)
{
    if (core.initialized)
        return 0;
    dp_process_note();
    dp_mem_cap((size_t)conf->memory);
    int err = dp_record_init(conf);
    if (err == 0)
        err = dp_report_init(conf);
    if (err == 0)
        err = -pthread_atfork(fork_prepare, fork_parent, fork_child);
    if (err == 0)
        dp_loader_sync();
    core.initialized = err == 0;
    return err;
}

void dp_core_init_once(void)
{
    struct dp_config conf;
    struct dp_config_error error;
    dp_lock_lock(&core.lock);
    if (!core.initialized) {
        dp_config_init(&conf);
        if (dp_config_parse(&conf, secure_getenv("DELTAPROF_CONF"), &error) == 0) {
            dp_log_init(conf.log);
            init_once(&conf); /* if memory is missing, dp_consumer_new fails */
        }
    }
    dp_lock_unlock(&core.lock);
}

static void say_start(const struct dp_config *conf)
{
    char rate[32], interval[32];
    dp_text_size(rate, sizeof rate, conf->heap_rate);
    dp_text_time(interval, sizeof interval, conf->interval_ns);
    dp_log(DP_LOG_INFO, "profiling: heap_rate=%s, interval=%s, out=%s", rate, interval,
           conf->out[0] ? conf->out : "none");
}

static int start(const struct dp_config *conf, bool preloaded)
{
    core.alone = preloaded;
    dp_log_init(conf->log);
    int err = init_once(conf);
    if (err) {
        errno = -err;
        dp_log(DP_LOG_ERROR, "cannot start: %m; nothing is profiled, the program runs on");
        return err;
    }
    dp_report_tune(conf);
    dp_tick_init(conf);
    dp_agent_init(conf, dp_load_relaxed(&core.hooks));
    dp_exit_init(conf, dp_settings_by_run());
    dp_signals_init(conf);
    if (conf->unwind == DP_UNWIND_LIBUNWIND && dp_unwind_wants_module())
        dp_unwind_load_module();
    dp_record_tune(conf, true);
    dp_endpoint_init(conf);
    if (conf->listen[0])
        dp_listen_init(conf);
    say_start(conf);
    if (!preloaded || conf->listen[0] || dp_process_threads() > 1)
        dp_agent_start();
    /* no warning if a heap is registered: a runtime reports its allocations */
    if (!dp_load_relaxed(&core.hooks) && !dp_heap_name(1))
        dp_log(DP_LOG_ERROR,
               "no interposer is active: only what a runtime reports itself is seen (link deltaprof-preload)");
    return 0;
}

static int start_from(const char *text, bool preloaded)
{
    int saved = errno;
    int64_t kept = deltaprof_guard_enter();
    dp_lock_lock(&core.lock);
    struct dp_config conf;
    int err = -EALREADY;
    if (dp_load_relaxed(&core.state) != RUNNING) {
        err = dp_settings_make(&conf, text, preloaded);
        if (err == 0)
            err = start(&conf, preloaded);
        if (err == 0) {
            core.conf = conf;
            dp_store_relaxed(&core.state, RUNNING);
        }
    }
    dp_lock_unlock(&core.lock);
    deltaprof_guard_exit(kept);
    if (err == 0)
        dp_record_rearm();
    errno = saved;
    return err > 0 ? 0 : err; /* excluded by `exe`: no error for the caller */
}

/* libc has it, no header of libc does. */
extern int __cxa_atexit(void (*run)(void *), void *arg, void *object);

static void before_handlers(void *unused)
{
    (void)unused;
    deltaprof_before_handlers();
}

/* The program's handlers of before this call run after before_handlers. Those of later are the interposer's to know. */
static void watch_exit(void)
{
    static _Atomic bool watched;
    if (!deltaprof_exit_is_watched() || dp_swap_acq_rel(&watched, true))
        return;
    int64_t kept = deltaprof_guard_enter();
    __cxa_atexit(before_handlers, NULL, NULL);
    deltaprof_guard_exit(kept);
}

int deltaprof_start(const char *conf)
{
    int err = start_from(conf, false);
    if (err == 0)
        watch_exit();
    return err;
}

int deltaprof_start_preloaded(void)
{
    return start_from(NULL, true);
}

int deltaprof_python_wanted(void)
{
    return dp_load_relaxed(&core.state) == RUNNING ? (int)core.conf.python : -ENOTCONN;
}

void deltaprof_say(const char *line)
{
    int64_t kept = deltaprof_guard_enter();
    dp_log(DP_LOG_ERROR, "%s", line);
    deltaprof_guard_exit(kept);
}

void deltaprof_announce_hooks(unsigned hooks)
{
    dp_store_relaxed(&core.hooks, dp_load_relaxed(&core.hooks) | hooks);
}

/* ---- while it runs ---------------------------------------------------------------------------------------------- */

int deltaprof_stop(void)
{
    int64_t kept = deltaprof_guard_enter();
    dp_lock_lock(&core.lock);
    int err = dp_load_relaxed(&core.state) == RUNNING ? 0 : -EALREADY;
    if (err == 0) {
        dp_record_tune(&core.conf, false);
        dp_store_relaxed(&core.state, STOPPED);
        dp_agent_retire();
        dp_agent_quiesce(dp_exit_deadline());
    }
    dp_lock_unlock(&core.lock);
    deltaprof_guard_exit(kept);
    return err;
}

int deltaprof_set(const char *text)
{
    struct dp_config_error error;
    int64_t kept = deltaprof_guard_enter();
    dp_lock_lock(&core.lock);
    struct dp_config conf = core.conf;
    if (dp_load_relaxed(&core.state) == IDLE)
        dp_config_init(&conf);
    int err = dp_config_parse_live(&conf, text, &error);
    if (err)
        dp_log(DP_LOG_ERROR, "deltaprof_set: %s", error.line);
    else if (dp_load_relaxed(&core.state) == IDLE)
        err = -ENOTCONN;
    if (err == 0) {
        dp_record_tune(&conf,
                       dp_load_relaxed(&core.state) == RUNNING && !(core.alone && dp_load_relaxed(&core.seccomp)));
        dp_report_tune(&conf);
        if (conf.interval_ns != core.conf.interval_ns) {
            dp_agent_tune(conf.interval_ns);
            if (!dp_load_relaxed(&core.seccomp) && dp_process_is_noted())
                dp_agent_start();
        }
        core.conf = conf;
    }
    dp_lock_unlock(&core.lock);
    deltaprof_guard_exit(kept);
    if (err == 0)
        dp_record_rearm();
    return err;
}

/*
 * Whether the profiler must do nothing: not started; under seccomp, where even getpid() may be fatal; in a child of
 * vfork.
 */
static bool stands_aside(void)
{
    return dp_load_relaxed(&core.state) == IDLE || dp_load_relaxed(&core.seccomp) || !dp_process_is_noted();
}

int deltaprof_emit(void)
{
    if (stands_aside())
        return -ENOTCONN;
    int64_t kept = deltaprof_guard_enter();
    int err = dp_tick(INT64_MAX);
    deltaprof_guard_exit(kept);
    return err;
}

int deltaprof_get_stats(struct deltaprof_stats *stats, size_t size_bytes)
{
    struct deltaprof_stats all = {0};
    dp_record_stats(&all);
    all.ticks = dp_stats_read(DP_STAT_TICKS);
    all.write_errors = dp_stats_read(DP_STAT_WRITE_ERRORS);
    memset(stats, 0, size_bytes);
    memcpy(stats, &all, size_bytes < sizeof all ? size_bytes : sizeof all);
    return 0;
}

void deltaprof_set_log(deltaprof_log_fn fn, void *ctx)
{
    int64_t kept = deltaprof_guard_enter();
    dp_log_to(fn, ctx);
    if (fn && dp_agent_is_running() && dp_agent_quiesce(dp_exit_deadline()))
        dp_agent_start(); /* the new agent shares the host's descriptors, which fn may need */
    deltaprof_guard_exit(kept);
}

/* ---- process life ----------------------------------------------------------------------------------------------- */

/* Creates the threads that are needed and missing. True: at least one was created. */
static bool make_threads(void)
{
    int saved = errno;
    int64_t kept = deltaprof_guard_enter();
    bool agent = dp_agent_start() > 0, listen = dp_listen_start();
    deltaprof_guard_exit(kept);
    errno = saved;
    return agent || listen;
}

void deltaprof_poll(void)
{
    if (!dp_agent_may_poll() || stands_aside())
        return;
    if (dp_process_threads() == 1)
        make_threads();
    else
        dp_agent_poll_later();
}

bool deltaprof_thread_begins(void)
{
    bool inside_hook = deltaprof_thread.countdown >= DELTAPROF_GUARDED / 2;
    return deltaprof_poll_wanted && !inside_hook && !stands_aside() && make_threads();
}

bool deltaprof_exit_is_watched(void)
{
    return dp_load_relaxed(&core.state) == RUNNING && dp_tick_has_sink();
}

void deltaprof_before_handlers(void)
{
    if (!stands_aside())
        dp_exit_before_handlers();
}

void deltaprof_before_exit(void)
{
    dp_exit_deliver(false);
}

void deltaprof_exit_begins(void)
{
    if (!stands_aside())
        dp_exit_begins();
}

void deltaprof_exit_cancelled(void)
{
    if (!stands_aside()) /* a child of vfork has its parent's memory */
        dp_exit_cancelled();
}

__attribute__((destructor)) static void at_exit(void)
{
    dp_exit_deliver(true);
    dp_agent_forbid();
    dp_listen_remove_file();
}

void deltaprof_unload_begin(void)
{
    dp_objects_unload_begin();
}

void deltaprof_unload_end(void)
{
    dp_objects_unload_end();
}

void deltaprof_stop_agent(void)
{
    if (stands_aside() || dp_agent_is_self())
        return;
    int saved = errno;
    int64_t kept = deltaprof_guard_enter();
    bool agent = dp_agent_is_running(), listen = dp_listen_stop();
    if (agent && !dp_agent_quiesce(dp_exit_deadline()))
        dp_log(DP_LOG_ERROR, "the thread that ticks is stuck in a sink; the program goes on with it");
    if (agent || listen)
        dp_store_relaxed(&core.paused, true);
    deltaprof_guard_exit(kept);
    errno = saved;
}

void deltaprof_restrict(void)
{
    if (stands_aside())
        return;
    int32_t self = (int32_t)syscall(SYS_gettid);
    if (self == dp_process_pid() || self == dp_agent_maker())
        deltaprof_stop_agent();
}

void deltaprof_resume(void)
{
    if (dp_load_relaxed(&core.paused) && !stands_aside() && dp_swap_acq_rel(&core.paused, false))
        make_threads();
}

void deltaprof_before_thread_exit(void)
{
    if (stands_aside() || syscall(SYS_gettid) != getpid())
        return;
    int64_t kept = deltaprof_guard_enter();
    dp_listen_forbid(); /* a thread of the profiler would keep the process alive after the host's last one */
    dp_agent_before_thread_exit(dp_exit_deadline());
    deltaprof_guard_exit(kept);
}

void deltaprof_before_seccomp(void)
{
    if (stands_aside() || dp_agent_is_self())
        return;
    if (dp_swap_acq_rel(&core.seccomp, true))
        return; /* another thread is doing it */
    int saved = errno;
    int64_t kept = deltaprof_guard_enter();
    int64_t deadline_ns = dp_exit_deadline();
    dp_agent_forbid();
    dp_endpoint_before_seccomp();
    dp_listen_forbid();
    dp_exit_forbid();
    if (!dp_agent_finish(deadline_ns) && !dp_agent_is_running())
        dp_tick(deadline_ns);
    dp_agent_quiesce(deadline_ns);
    dp_signals_release();
    dp_lock_lock(&core.lock);
    if (core.alone)
        dp_record_tune(&core.conf, false); /* no sink could write the records, and walking a stack needs system calls */
    dp_lock_unlock(&core.lock);
    if (dp_tick_has_sink() && (core.conf.heap_rate || core.conf.mutex_rate || core.conf.block_rate_ns))
        dp_log(DP_LOG_ERROR, "a seccomp filter, or no clock (PR_SET_TSC): no profile is written from here on");
    dp_log_before_seccomp();
    deltaprof_guard_exit(kept);
    errno = saved;
}

int deltaprof_sigaltstack(const stack_t *stack, stack_t *old, deltaprof_sigaltstack_fn real)
{
    return dp_signals_stack(stack, old, real);
}

int deltaprof_sigaction(int sig, const struct sigaction *act, struct sigaction *old, deltaprof_sigaction_fn real)
{
    return dp_signals_action(sig, act, old, real);
}
