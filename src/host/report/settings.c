/* SPDX-License-Identifier: MIT */
/* host/report/settings.c - keeps the settings of all reports, opens their modules, and starts them anew in a forked
 * child.
 */
#include "host/report/settings.h"

#include "host/report/recorded.h"

#include "base/clock.h"
#include "base/epoch.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "pprof/gzip.h"
#include "pprof/stamp.h"
#include "host/symbols/called.h"
#include "host/resident/resident.h"
#include "host/symbols/symbols_lock.h"
#include "host/symbols/maps.h"
#include "host/symbols/symbol.h"

#include <deltaprof/thread.h>
#include <errno.h>
#include <sys/resource.h>

static DP_LARGE struct dp_config settings;
static struct dp_lock lock;
static size_t stack_bytes = (size_t)2 << 20; /* glibc's where there is no limit */
static struct dp_window_edge origin, adopted_end;

void dp_report_adopt(struct dp_window_edge begin, struct dp_window_edge end)
{
    origin = begin;
    adopted_end = end;
}

struct dp_window_edge dp_report_now(void)
{
    struct dp_window_edge now = adopted_end;
    if (now.wall_ns)
        return now;
    dp_clock_moment(&now.mono_ns, &now.wall_ns);
    return now;
}

static _Atomic int64_t on_since; /* relaxed: a number */

void dp_report_set_on_since(int64_t wall_ns)
{
    dp_store_relaxed(&on_since, wall_ns);
}

int64_t dp_report_on_since(void)
{
    return dp_load_relaxed(&on_since);
}

struct dp_window_edge dp_report_origin(void)
{
    return origin;
}

size_t dp_report_stack_bytes(void)
{
    return stack_bytes;
}

int dp_report_init(const struct dp_config *conf)
{
    struct rlimit limit;
    if (!getrlimit(RLIMIT_STACK, &limit) && limit.rlim_cur != RLIM_INFINITY)
        stack_bytes = (size_t)limit.rlim_cur;
    origin = dp_report_now();
    dp_report_tune(conf);
    return 0;
}

const struct dp_config *dp_report_settings_lock(bool wait)
{
    if (wait)
        dp_lock_lock(&lock);
    else if (!dp_lock_try(&lock))
        return NULL;
    return &settings;
}

void dp_report_settings_unlock(void)
{
    dp_lock_unlock(&lock);
}

void dp_report_tune(const struct dp_config *conf)
{
    dp_lock_lock(&lock);
    dp_config_copy(&settings, conf);
    dp_lock_unlock(&lock);
}

void dp_report_settings(struct dp_config *conf)
{
    dp_lock_lock(&lock);
    *conf = settings;
    dp_lock_unlock(&lock);
}

void dp_report_fork_prepare(void)
{
    dp_symbols_fork_prepare();
}

void dp_report_learn_for_children(void)
{
    int saved = errno;
    dp_stamp_learn();
    dp_symbols_called_learn();
    if (dp_symbols_lock(false) == 0) {
        dp_symbols_maps_learn();
        dp_symbols_unlock();
    }
    errno = saved;
}

DP_IN_CHILD void dp_report_fork_child(void)
{
    origin = (struct dp_window_edge){dp_clock_wall_coarse_ns(), dp_clock_coarse_ns()};
    dp_lock_reset(&lock);
    dp_report_recorded_fork_child(origin.mono_ns);
    dp_resident_known_fork_child();
    dp_symbols_fork_child();
    dp_epoch_fork_child();
}

void dp_report_load_gzip(void)
{
    static struct dp_log_cause cause;
    const char *why = "";
    if (dp_symbols_loader_unusable())
        return;
    int64_t kept = deltaprof_guard_enter();
    if (dp_gzip_load(&why))
        dp_log_once(&cause, 1, "profiles are not compressed: module gzip: %s", why);
    deltaprof_guard_exit(kept);
}

void dp_report_load(const struct dp_config *conf)
{
    dp_symbols_load(conf->symbolize);
    dp_report_load_gzip();
}
