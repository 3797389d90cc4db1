/* SPDX-License-Identifier: MIT */
/*
 * deltaprof.c - the core: starts, changes and stops the profiler for the public API. process_events.c has the functions
 * by which interposers report what the process does, fork_handlers.c those of fork, deltas.c the functions of deltas.
 * These files alone use all rooms.
 *
 * A process is IDLE, RUNNING or STOPPED. The first start maps the tables and registers handlers, in an order in which
 * each step can rely on the earlier ones; a later start only changes rates. `exe` is checked first: in an excluded
 * program nothing is done but parsing the configuration.
 */
#include <deltaprof/deltaprof.h>
#include <deltaprof/interpose.h>
#include <deltaprof/thread.h>

#include "host/api/build_id.h"
#include "host/api/core.h"

#include "base/beacon.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/text.h"
#include "binary/warning.h"
#include "config/settings.h"
#include "host/cpu/watch.h"
#include "host/wall/watch.h"
#include "host/http/endpoint.h"
#include "host/http/listen.h"
#include "host/heap/heap.h"
#include "host/api/recording.h"
#include "host/symbols/called.h"
#include "host/report/profile.h"
#include "host/report/recorded.h"
#include "host/report/settings.h"
#include "host/resident/jemalloc.h"
#include "host/resident/resident.h"
#include "host/agent/agent.h"
#include "host/agent/exit.h"
#include "host/agent/signals.h"
#include "host/agent/tick.h"
#include "host/shared/table_file.h"
#include "host/table/heaps.h"
#include "host/symbols/loader_sync.h"
#include "host/report/published_trace.h"
#include "host/unwind/unwind.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct dp_core dp_core;
DP_LARGE struct dp_config dp_core_conf;

const char *deltaprof_version(void)
{
    return DELTAPROF_VERSION;
}

/* ---- start ------------------------------------------------------------------------------------------------------ */

/* A bit for each kind of which events are recorded. */
static uint32_t kinds_of(const struct dp_config *conf)
{
    uint32_t kinds = 0;
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        kinds |= (uint32_t)dp_config_kind_is_on(conf, kind) << kind;
    return kinds;
}

void dp_core_tune(const struct dp_config *conf, bool on)
{
    uint32_t kinds = on ? kinds_of(conf) : 0;
    dp_shared_file_set_kinds(kinds, conf->block_rate_ns, on);
    dp_report_recorded_tune(kinds);
    dp_record_tune(conf, on);
}

/* Sets up what lasts for the life of the process; runs once. */
static int init_once(const struct dp_config *conf)
{
    if (dp_core.initialized)
        return 0;
    dp_process_note();
    dp_process_note_unfiltered();
    dp_mem_cap((size_t)conf->memory);
    int err = dp_record_init(conf);
    if (err == 0 && dp_shared_file_is_wanted()) {
        dp_outside_build_id(dp_shared_file_header());
        dp_shared_file_set_kinds(kinds_of(conf), conf->block_rate_ns, true);
    }
    if (err == 0)
        err = dp_report_init(conf);
    if (err == 0)
        err = dp_core_watch_forks();
    if (err == 0)
        dp_symbols_loader_sync();
    dp_core.initialized = err == 0;
    return err;
}

void dp_core_init_once(void)
{
    struct dp_config conf;
    struct dp_config_error error;
    dp_lock_lock(&dp_core.lock);
    if (!dp_core.initialized) {
        dp_config_init(&conf);
        if (dp_config_parse(&conf, secure_getenv("DELTAPROF_CONF"), &error) == 0) {
            dp_log_init(conf.log);
            init_once(&conf); /* if memory is missing, dp_consumer_new fails */
        }
    }
    dp_lock_unlock(&dp_core.lock);
}

static void log_start(const struct dp_config *conf)
{
    char rate[32], interval[32];
    dp_text_size(rate, sizeof rate, conf->heap_rate);
    dp_text_time(interval, sizeof interval, conf->interval_ns);
    dp_log(DP_LOG_INFO, "profiling: heap_rate=%s, interval=%s, out=%s", rate, interval,
           conf->out[0] ? conf->out : "none");
}

/* libc knows of its own threads. Threads that were made without it before this are met at a later poll. */
static bool has_threads(void)
{
    return !__libc_single_threaded && dp_process_threads() > 1;
}

static int start(const struct dp_config *conf, bool preloaded)
{
    dp_core.alone = preloaded;
    dp_log_init(conf->log);
    int err = init_once(conf);
    if (err) {
        errno = -err;
        dp_log(DP_LOG_ERROR, "cannot start: %m; nothing is profiled, the program continues");
        return err;
    }
    dp_beacon_show(conf->out, conf->listen, conf->token, conf->signal); /* else readers look in the environment */
    dp_report_tune(conf);
    dp_agent_tick_init(conf);
    dp_agent_init(conf, dp_load_relaxed(&dp_core.hooks));
    dp_agent_exit_init(conf, dp_config_by_run());
    dp_agent_signals_init(conf);
    if (conf->unwind == DP_UNWIND_LIBUNWIND && dp_unwind_wants_module())
        dp_unwind_load_module();
    dp_core_tune(conf, true);
    dp_report_want_published_trace(conf->events[0] || conf->trace);
    dp_report_find_published_trace();
    dp_cpu_tune(conf->cpu_rate_ns);
    dp_wall_tune(conf->wall_rate_ns);
    dp_http_endpoint_init(conf);
    if (conf->listen[0])
        dp_http_listen_init(conf);
    log_start(conf);
    if (!preloaded || conf->listen[0] || conf->wall_rate_ns || has_threads())
        dp_agent_start();
    /* no warning if a heap is registered: a runtime reports its allocations */
    if (!dp_load_relaxed(&dp_core.hooks) && !dp_table_heap_name(1))
        dp_log(DP_LOG_ERROR, "no interposer is active: malloc and locks are not seen, only events that the program "
                             "reports itself; to see "
                             "them, link deltaprof-preload");
    return 0;
}

static int start_from(const char *text, bool preloaded)
{
    int saved = errno;
    int64_t kept = deltaprof_guard_enter();
    dp_lock_lock(&dp_core.lock);
    struct dp_config conf;
    int err = -EALREADY;
    if (dp_load_relaxed(&dp_core.state) != DP_CORE_RUNNING) {
        err = dp_config_settings_make(&conf, text, preloaded);
        bool is_off = err == 0 && !conf.start;
        if (is_off)
            dp_commands_begin(&conf);
        else if (err == 0)
            err = start(&conf, preloaded);
        if (err == 0) {
            dp_core.alone = preloaded;
            dp_config_copy(&dp_core_conf, &conf);
            if (!is_off)
                dp_store_relaxed(&dp_core.state, DP_CORE_RUNNING);
        }
    }
    dp_lock_unlock(&dp_core.lock);
    deltaprof_guard_exit(kept);
    if (err == 0)
        dp_heap_rearm();
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

int dp_core_turn_on(const char *keys, struct dp_config_error *error)
{
    static DP_LARGE struct dp_config conf; /* under the lock */
    dp_lock_lock(&dp_core.lock);
    int err = -EALREADY;
    if (dp_load_relaxed(&dp_core.state) != DP_CORE_RUNNING) {
        dp_config_copy(&conf, &dp_core_conf);
        err = dp_config_settings_amend(&conf, keys, error);
        if (err == 0 && !dp_process_matches(conf.exe))
            err = 1;
        if (err == 0)
            err = start(&conf, dp_core.alone);
        if (err == 0) {
            dp_config_copy(&dp_core_conf, &conf);
            if (!dp_report_on_since())
                dp_report_set_on_since(dp_clock_wall_ns());
            dp_store_relaxed(&dp_core.state, DP_CORE_RUNNING);
        }
    }
    dp_lock_unlock(&dp_core.lock);
    if (err == 0)
        watch_exit();
    return err;
}

int deltaprof_start(const char *conf)
{
    int err = start_from(conf, false);
    if (err == 0)
        watch_exit();
    return err;
}

/* `deltaprof run` warned of what a program does not show. If that was a script or a wrapper, this is the program. */
static void warn_of_another_program(void)
{
    static const char self[] = "/proc/self/exe";
    static struct dp_binary binary;
    char path[PATH_MAX], line[PATH_MAX + 512];
    const char *known = dp_config_by_run() ? secure_getenv("DELTAPROF_RUN_PROGRAM") : NULL;
    struct stat a, b;
    ssize_t n = known ? readlink(self, path, sizeof path - 1) : -1;
    if (n <= 0 || stat(self, &a) || (!stat(known, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino))
        return;
    path[n] = '\0';
    if (dp_binary_read(self, &binary))
        return;
    if (dp_binary_warn(&binary, path, dp_core_conf.inside, line, sizeof line))
        deltaprof_say(line);
    if (dp_binary_warn_of_waits(&binary, path, line, sizeof line))
        deltaprof_say(line);
}

int deltaprof_start_preloaded(const char *conf)
{
    int saved = errno, err = start_from(conf, true);
    if (err == 0 && dp_load_relaxed(&dp_core.state) == DP_CORE_RUNNING)
        warn_of_another_program();
    errno = saved;
    return err;
}

/* Its hooks must be installed before main, so they are where the profiler may be turned on later, too. */
int deltaprof_python_wanted(void)
{
    bool may_run = dp_load_relaxed(&dp_core.state) == DP_CORE_RUNNING || dp_commands_are_on();
    return may_run ? (int)dp_core_conf.python : -ENOTCONN;
}

bool deltaprof_inside_wanted(void)
{
    return dp_load_relaxed(&dp_core.state) == DP_CORE_RUNNING && dp_core_conf.inside && dp_core_conf.heap_rate;
}

static void log_guarded(enum dp_log_level level, const char *line)
{
    int64_t kept = deltaprof_guard_enter();
    dp_log(level, "%s", line);
    deltaprof_guard_exit(kept);
}

void deltaprof_say(const char *line)
{
    log_guarded(DP_LOG_ERROR, line);
}

void deltaprof_say_info(const char *line)
{
    log_guarded(DP_LOG_INFO, line);
}

void deltaprof_size_classes(size_t (*size_of)(size_t n, int flags))
{
    int64_t kept = deltaprof_guard_enter();
    dp_resident_classes_learn(size_of);
    deltaprof_guard_exit(kept);
}

void deltaprof_jemalloc(deltaprof_mallctl_fn mallctl)
{
    dp_resident_jemalloc_learn(mallctl);
}

void deltaprof_announce_hooks(unsigned hooks)
{
    dp_store_relaxed(&dp_core.hooks, dp_load_relaxed(&dp_core.hooks) | hooks);
    dp_symbols_called_hooks_at((uintptr_t)__builtin_return_address(0));
}

/* ---- while it runs ---------------------------------------------------------------------------------------------- */

int deltaprof_stop(void)
{
    int64_t kept = deltaprof_guard_enter();
    dp_lock_lock(&dp_core.lock);
    int err = dp_load_relaxed(&dp_core.state) == DP_CORE_RUNNING ? 0 : -EALREADY;
    if (err == 0) {
        dp_core_tune(&dp_core_conf, false);
        dp_wall_tune(0);
        dp_cpu_tune(0);
        dp_store_relaxed(&dp_core.state, DP_CORE_STOPPED);
        dp_agent_retire();
        dp_agent_quiesce(dp_agent_exit_deadline());
    }
    dp_lock_unlock(&dp_core.lock);
    deltaprof_guard_exit(kept);
    return err;
}

int deltaprof_set(const char *text)
{
    static struct dp_log_bound mistakes;
    struct dp_config_error error;
    int64_t kept = deltaprof_guard_enter();
    dp_lock_lock(&dp_core.lock);
    struct dp_config conf = dp_core_conf;
    if (dp_load_relaxed(&dp_core.state) == DP_CORE_IDLE)
        dp_config_init(&conf);
    int err = dp_config_parse_live(&conf, text, &error);
    if (err)
        dp_log_bounded(&mistakes, "deltaprof_set: %s", error.line);
    else if (dp_load_relaxed(&dp_core.state) == DP_CORE_IDLE)
        err = -ENOTCONN;
    if (err == 0) {
        dp_core_tune(&conf, dp_load_relaxed(&dp_core.state) == DP_CORE_RUNNING &&
                                !(dp_core.alone && dp_process_has_seccomp()));
        bool is_filtered = dp_process_has_seccomp() || !dp_process_is_noted();
        if (dp_load_relaxed(&dp_core.state) == DP_CORE_RUNNING && !is_filtered) {
            dp_cpu_tune(conf.cpu_rate_ns);
            dp_wall_tune(conf.wall_rate_ns);
        }
        dp_report_tune(&conf);
        if (conf.interval_ns != dp_core_conf.interval_ns || conf.stuck_ns != dp_core_conf.stuck_ns ||
            conf.cpu_rate_ns != dp_core_conf.cpu_rate_ns || conf.wall_rate_ns != dp_core_conf.wall_rate_ns) {
            dp_agent_tune(&conf);
            if (!dp_process_has_seccomp() && dp_process_is_noted())
                dp_agent_start();
        }
        dp_config_copy(&dp_core_conf, &conf);
    }
    dp_lock_unlock(&dp_core.lock);
    deltaprof_guard_exit(kept);
    if (err == 0)
        dp_heap_rearm();
    return err;
}

int deltaprof_emit(void)
{
    if (dp_core_is_disabled())
        return -ENOTCONN;
    int64_t kept = deltaprof_guard_enter();
    int err = dp_agent_tick(INT64_MAX);
    deltaprof_guard_exit(kept);
    return err;
}

void deltaprof_set_log(deltaprof_log_fn fn, void *ctx)
{
    int64_t kept = deltaprof_guard_enter();
    dp_log_to(fn, ctx);
    if (fn && dp_agent_is_running() && dp_agent_quiesce(dp_agent_exit_deadline()))
        dp_agent_start(); /* the new agent shares the host's descriptors, which fn may need */
    deltaprof_guard_exit(kept);
}
