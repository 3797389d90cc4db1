/* SPDX-License-Identifier: MIT */
/*
 * host/http/metrics.c - writes the metrics of this process.
 *
 * A label's value comes from a fixed table, or is the name of a cursor. request.c restricts the letters of that name.
 * So no value needs an escape.
 */
#include "host/http/metrics.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/stats.h"
#include "host/report/totals.h"
#include "host/http/cursor.h"
#include "endpoint/openmetrics.h"
#include "endpoint/request.h"
#include "host/table/record.h"
#include "host/report/settings.h"
#include "host/agent/tick.h"
#include "profile/lock_kinds.h"

#include <deltaprof/deltaprof.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

static void number(struct dp_openmetrics *out, const char *sample, int64_t value)
{
    dp_openmetrics_print(out, "deltaprof_%s %lld\n", sample, (long long)value);
}

static void gauge(struct dp_openmetrics *out, const char *name, const char *unit, const char *help, int64_t value)
{
    dp_openmetrics_family(out, name, "gauge", unit, help);
    number(out, name, value);
}

static void counter(struct dp_openmetrics *out, const char *name, const char *unit, const char *help, int64_t value)
{
    dp_openmetrics_family(out, name, "counter", unit, help);
    dp_openmetrics_print(out, "deltaprof_%s_total %lld\n", name, (long long)value);
}

static void write_heap(struct dp_openmetrics *out)
{
    struct dp_totals heap;
    dp_totals_read(DELTAPROF_HEAP, &heap);
    gauge(out, "in_use_bytes", "bytes", "Memory in use, by samples.", heap.inuse_bytes);
    gauge(out, "in_use_objects", "", "Blocks in use, by samples.", heap.inuse_objects);
    counter(out, "allocated_bytes", "bytes", "Memory allocated since start, by samples.", heap.alloc_bytes);
    counter(out, "allocated_objects", "", "Blocks allocated since start, by samples.", heap.alloc_objects);
}

static void write_seconds(struct dp_openmetrics *out, const char *sample, const struct dp_totals *totals)
{
    for (unsigned lock = 0; lock < DP_LABELS_LOCKS; lock++) {
        const char *name = dp_lock_kind_name(lock);
        int64_t ns = totals->by_lock[lock].delay_ns;
        if (name || ns)
            dp_openmetrics_print(out, "deltaprof_%s_total{lock=\"%s\"} %lld.%09lld\n", sample, name ? name : "overflow",
                                 (long long)(ns / 1000000000), (long long)(ns % 1000000000));
    }
}

static void write_times(struct dp_openmetrics *out, const char *sample, const struct dp_totals *totals)
{
    for (unsigned lock = 0; lock < DP_LABELS_LOCKS; lock++) {
        const char *name = dp_lock_kind_name(lock);
        int64_t n = totals->by_lock[lock].contentions;
        if (name || n)
            dp_openmetrics_print(out, "deltaprof_%s_total{lock=\"%s\"} %lld\n", sample, name ? name : "overflow",
                                 (long long)n);
    }
}

static void write_locks(struct dp_openmetrics *out)
{
    struct dp_totals block, mutex;
    dp_totals_read(DELTAPROF_BLOCK, &block);
    dp_totals_read(DELTAPROF_MUTEX, &mutex);
    dp_openmetrics_family(out, "waits", "counter", "", "Waits of threads, by the kind of lock.");
    write_times(out, "waits", &block);
    dp_openmetrics_family(out, "wait_seconds", "counter", "seconds", "Time that threads waited, by the kind of lock.");
    write_seconds(out, "wait_seconds", &block);
    dp_openmetrics_family(out, "holdups", "counter", "", "Releases of locks that others waited for.");
    write_times(out, "holdups", &mutex);
    dp_openmetrics_family(out, "holdup_seconds", "counter", "seconds", "Time that holders of locks made others wait.");
    write_seconds(out, "holdup_seconds", &mutex);
}

static void write_losses(struct dp_openmetrics *out)
{
    dp_openmetrics_family(out, "losses", "counter", "", "Events that were not kept whole, by cause.");
    for (int i = 0; i < DP_STAT_N; i++) {
        char cause[32];
        size_t n = 0;
        if (i == DP_STAT_SAMPLES || i == DP_STAT_TICKS)
            continue;
        for (const char *p = dp_stats_name((enum dp_stat)i); *p && n + 1 < sizeof cause; p++)
            cause[n++] = (char)tolower((unsigned char)*p);
        cause[n] = '\0';
        dp_openmetrics_print(out, "deltaprof_losses_total{cause=\"%s\"} %llu\n", cause,
                             (unsigned long long)dp_stats_read((enum dp_stat)i));
    }
}

/* ---- consumers ---- */

struct age {
    char name[DP_CURSOR_NAME_MAX + 1]; /* of a cursor */
    unsigned kind, locks;
    int64_t covered_ns;
};

struct ages {
    DP_VEC(struct age) all;
};

static void keep_age(void *ctx, const struct dp_http_cursor_key *key, int64_t covered_ns)
{
    struct age *age = dp_vec_push(&((struct ages *)ctx)->all);
    if (!age)
        return;
    age->kind = key->kind;
    age->locks = key->locks;
    age->covered_ns = covered_ns;
    snprintf(age->name, sizeof age->name, "%s", key->name);
}

static void write_age(struct dp_openmetrics *out, const char *labels, unsigned kind, int64_t now_ns, int64_t covered_ns)
{
    int64_t ns = now_ns > covered_ns ? now_ns - covered_ns : 0;
    dp_openmetrics_print(out, "deltaprof_delta_age_seconds{profile=\"%s\",%s} %lld.%09lld\n", dp_kind_table[kind].name,
                         labels, (long long)(ns / 1000000000), (long long)(ns % 1000000000));
}

static void write_cursor(struct dp_openmetrics *out, const struct age *age, int64_t now_ns)
{
    char labels[256];
    int n = snprintf(labels, sizeof labels, "consumer=\"cursor\",cursor=\"%s\"", age->name);
    for (unsigned lock = 1, n_locks = 0; age->locks && lock < DP_LABELS_LOCKS; lock++)
        if (age->locks >> lock & 1)
            n += snprintf(labels + n, sizeof labels - (size_t)n, "%s%s", n_locks++ ? "," : ",lock=\"",
                          dp_lock_kind_name(lock));
    if (age->locks)
        snprintf(labels + n, sizeof labels - (size_t)n, "\"");
    write_age(out, labels, age->kind, now_ns, age->covered_ns);
}

static void write_ages(struct dp_openmetrics *out)
{
    struct ages ages = {0};
    int64_t now_ns = dp_clock_ns();
    dp_openmetrics_family(out, "delta_age_seconds", "gauge", "seconds",
                          "Time since the end of the last delta that a consumer took.");
    for (unsigned kind = 0; kind < DP_KIND_DELTAS && dp_agent_tick_has_sink(); kind++)
        write_age(out, "consumer=\"files\"", kind, now_ns, dp_agent_tick_covered_ns(kind));
    dp_http_cursor_visit(keep_age, &ages);
    for (size_t i = 0; i < ages.all.n; i++)
        write_cursor(out, &ages.all.at[i], now_ns);
    dp_vec_fini(&ages.all);
}

int dp_http_metrics_write(dp_pprof_write_fn fn, void *ctx)
{
    struct dp_openmetrics out = {fn, ctx, 0};
    struct deltaprof_stats stats = {0};
    struct dp_config conf;
    dp_record_stats(&stats);
    dp_report_settings(&conf);
    dp_openmetrics_family(&out, "build", "info", "", "The profiler.");
    dp_openmetrics_print(&out, "deltaprof_build_info{version=\"" DELTAPROF_VERSION "\"} 1\n");
    write_heap(&out);
    write_locks(&out);
    counter(&out, "samples", "", "Events recorded.", (int64_t)stats.samples);
    gauge(&out, "records", "", "Distinct stacks with their labels.", (int64_t)stats.records);
    gauge(&out, "live_samples", "", "Sampled blocks in use.", (int64_t)stats.live);
    gauge(&out, "memory_bytes", "bytes", "Memory of the profiler.", (int64_t)stats.memory_bytes);
    gauge(&out, "memory_limit_bytes", "bytes", "The most that it may use.", conf.memory);
    counter(&out, "ticks", "", "Ticks that wrote files.", (int64_t)dp_stats_read(DP_STAT_TICKS));
    write_losses(&out);
    write_ages(&out);
    dp_openmetrics_print(&out, "# EOF\n");
    return out.err;
}
