/* SPDX-License-Identifier: MIT */
/*
 * host/agent/summary.c - keeps the highest in-use value of all ticks and the last one, for the line at the end. If the
 * program had more in use between two ticks, the line tells that.
 *
 * The text is made when the process ends, perhaps in a signal handler, where localtime may not be called. So the offset
 * of local time comes from `deltaprof run`.
 */
#include "host/agent/summary.h"

#include "base/atomic.h"
#include "base/process.h"
#include "base/text.h"
#include "host/heap/peak.h"

#include <stdbool.h>
#include <stdlib.h>

/* Relaxed: written by ticks under their lock, read after the last one. */
static struct {
    _Atomic int64_t peak_bytes, peak_ns, last_bytes, offset_seconds;
    _Atomic bool has_tick, is_local;
} summary;

void dp_agent_summary_init(void)
{
    const char *text = secure_getenv("DELTAPROF_UTC_OFFSET");
    int64_t seconds;
    bool is_west = text && *text == '-';
    if (!text || dp_text_read_count(text + is_west, &seconds) || seconds > 24 * 3600)
        return;
    dp_store_relaxed(&summary.offset_seconds, is_west ? -seconds : seconds);
    dp_store_relaxed(&summary.is_local, true);
}

void dp_agent_summary_tick(int64_t inuse_bytes, int64_t time_ns)
{
    if (!dp_load_relaxed(&summary.has_tick) || inuse_bytes > dp_load_relaxed(&summary.peak_bytes)) {
        dp_store_relaxed(&summary.peak_bytes, inuse_bytes);
        dp_store_relaxed(&summary.peak_ns, time_ns);
    }
    dp_store_relaxed(&summary.last_bytes, inuse_bytes);
    dp_store_relaxed(&summary.has_tick, true);
}

/* "148 MB": at least three digits, without a fraction. */
static void size_text(char *to, size_t n_bytes, int64_t bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;
    int64_t tenths = bytes * 10;
    for (; tenths >= 10240 && unit < 5; unit++)
        tenths = (tenths + 512) / 1024;
    if (tenths < 100 && tenths % 10)
        dp_text_format(to, n_bytes, "%lld.%lld %s", (long long)tenths / 10, (long long)tenths % 10, units[unit]);
    else
        dp_text_format(to, n_bytes, "%lld %s", (long long)(tenths + 5) / 10, units[unit]);
}

void dp_agent_summary_text(char *to, size_t n_bytes, int64_t allocated_bytes)
{
    char allocated[32], peak[32], last[32];
    int64_t peak_ns = dp_load_relaxed(&summary.peak_ns), most_ns, most_bytes = dp_heap_peak_most(&most_ns);
    int64_t peak_bytes = dp_load_relaxed(&summary.peak_bytes), last_bytes = dp_load_relaxed(&summary.last_bytes);
    if (most_bytes > peak_bytes) {
        peak_bytes = most_bytes;
        peak_ns = most_ns;
    }
    int64_t seconds = peak_ns / 1000000000 + dp_load_relaxed(&summary.offset_seconds);
    int64_t of_day = ((seconds % 86400) + 86400) % 86400;
    *to = '\0';
    if (!dp_load_relaxed(&summary.has_tick))
        return;
    /* Allocations are counted, the others estimated by samples: no estimate is above the count. */
    size_text(allocated, sizeof allocated, allocated_bytes);
    size_text(peak, sizeof peak, peak_bytes < allocated_bytes ? peak_bytes : allocated_bytes);
    size_text(last, sizeof last, last_bytes < allocated_bytes ? last_bytes : allocated_bytes);
    dp_text_format(to, n_bytes, "%s allocated, peak %s at %02d:%02d:%02d%s, %s in use at exit", allocated, peak,
                   (int)(of_day / 3600), (int)(of_day / 60 % 60), (int)(of_day % 60),
                   dp_load_relaxed(&summary.is_local) ? "" : " UTC", last);
}

DP_IN_CHILD void dp_agent_summary_fork_child(void)
{
    dp_store_relaxed(&summary.has_tick, false);
}
