/* SPDX-License-Identifier: MIT */
/* host/api/statistics.c - the public function of statistics: collects the numbers of all rooms. */
#include <deltaprof/deltaprof.h>

#include "base/clock.h"
#include "base/stats.h"
#include "host/report/totals.h"
#include "host/http/cursor.h"
#include "host/table/record.h"
#include "host/report/profile.h"
#include "host/report/settings.h"
#include "host/agent/tick.h"

#include <string.h>

#define N_LOCKS (sizeof((struct deltaprof_stats *)0)->waits / sizeof(uint64_t))
_Static_assert(N_LOCKS == DP_LABELS_LOCKS, "an element for each lock kind");

static void read_totals(struct deltaprof_stats *stats)
{
    struct dp_totals totals;
    dp_totals_read(DELTAPROF_HEAP, &totals);
    stats->in_use_bytes = (uint64_t)totals.inuse_bytes;
    stats->in_use_objects = (uint64_t)totals.inuse_objects;
    stats->allocated_bytes = (uint64_t)totals.alloc_bytes;
    stats->allocated_objects = (uint64_t)totals.alloc_objects;
    dp_totals_read(DELTAPROF_BLOCK, &totals);
    for (unsigned lock = 0; lock < N_LOCKS; lock++) {
        stats->waits[lock] = (uint64_t)totals.by_lock[lock].contentions;
        stats->wait_ns[lock] = (uint64_t)totals.by_lock[lock].delay_ns;
    }
    dp_totals_read(DELTAPROF_MUTEX, &totals);
    for (unsigned lock = 0; lock < N_LOCKS; lock++) {
        stats->holdups[lock] = (uint64_t)totals.by_lock[lock].contentions;
        stats->holdup_ns[lock] = (uint64_t)totals.by_lock[lock].delay_ns;
    }
}

static void keep_earliest(void *earliest_ns, const struct dp_http_cursor_key *key, int64_t covered_ns)
{
    (void)key;
    if (covered_ns < *(int64_t *)earliest_ns)
        *(int64_t *)earliest_ns = covered_ns;
}

static uint64_t age(int64_t now_ns, int64_t covered_ns)
{
    return covered_ns == INT64_MAX ? UINT64_MAX : now_ns > covered_ns ? (uint64_t)(now_ns - covered_ns) : 0;
}

static void read_ages(struct deltaprof_stats *stats)
{
    int64_t files_ns = INT64_MAX, cursors_ns = INT64_MAX, now_ns = dp_clock_ns();
    for (unsigned kind = 0; kind < DP_KIND_DELTAS && dp_agent_tick_has_sink(); kind++)
        if (dp_agent_tick_covered_ns(kind) < files_ns)
            files_ns = dp_agent_tick_covered_ns(kind);
    dp_http_cursor_visit(keep_earliest, &cursors_ns);
    stats->files_age_ns = age(now_ns, files_ns);
    stats->cursors_age_ns = age(now_ns, cursors_ns);
}

int deltaprof_get_stats(struct deltaprof_stats *stats, size_t size_bytes)
{
    struct deltaprof_stats all = {0};
    struct dp_config conf;
    dp_record_stats(&all);
    all.events_lost = dp_stats_read(DP_STAT_EVENTS_LOST);
    all.ticks = dp_stats_read(DP_STAT_TICKS);
    all.write_errors = dp_stats_read(DP_STAT_WRITE_ERRORS);
    if (size_bytes > offsetof(struct deltaprof_stats, in_use_bytes)) {
        read_totals(&all);
        dp_report_settings(&conf);
        all.memory_limit_bytes = (uint64_t)conf.memory;
        read_ages(&all);
    }
    memset(stats, 0, size_bytes);
    memcpy(stats, &all, size_bytes < sizeof all ? size_bytes : sizeof all);
    return 0;
}
