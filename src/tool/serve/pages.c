/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/pages.c - writes the index and the metrics. Each sample type of a kind is a family of metrics: flows are
 * counters, levels are gauges, nanoseconds become seconds.
 */
#include "tool/serve/pages.h"

#include "endpoint/openmetrics.h"
#include "tool/serve/join.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A program's name is what its maker chose: only harmless letters are shown. */
static const char *clean(const char *name, char text[64])
{
    size_t n = 0;
    for (; *name && n < 63; name++)
        text[n++] = strchr("<>&\"'\\", *name) || (unsigned char)*name < ' ' ? '?' : *name;
    text[n] = '\0';
    return text;
}

static void print_process(struct dp_openmetrics *out, const struct dp_serve_worker *w)
{
    char name[64], in_use[32] = "-";
    const struct dp_recover_table *t = &w->table;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (w->inuse_bytes >= 0)
        snprintf(in_use, sizeof in_use, "%lld", (long long)w->inuse_bytes);
    dp_openmetrics_print(out, "<tr><td>%d<td>%s<td>%lld s<td>%s<td>", (int)t->pid, clean(t->program, name),
                         (long long)(now.tv_sec - t->begin_wall_ns / 1000000000), in_use);
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        if (t->samples[kind] && dp_serve_workers_tell(kind))
            dp_openmetrics_print(out, "<a href=\"delta_%s?pid=%d\">delta_%s</a> ", dp_kind_table[kind].name,
                                 (int)t->pid, dp_kind_table[kind].name);
    dp_openmetrics_print(out, "\n");
}

static void print_endpoint(struct dp_serve_family *f, struct dp_openmetrics *out,
                           const struct dp_kind_endpoint *endpoint, unsigned kind)
{
    if (f->workers.at.n + f->workers.n_ended && dp_serve_workers_lack(&f->workers, kind, 0))
        dp_openmetrics_print(out, "<li>%s: off in all processes; <code>%s</code> switches it on\n", endpoint->name,
                             dp_kind_table[kind].keys);
    else
        dp_openmetrics_print(out, "<li><a href=\"%s\">%s</a>: %s\n", endpoint->name, endpoint->name, endpoint->words);
}

int dp_serve_pages_index(struct dp_serve_family *f, dp_pprof_write_fn fn, void *ctx)
{
    struct dp_openmetrics out = {.fn = fn, .ctx = ctx};
    const struct dp_kind_endpoint *endpoint;
    unsigned kind;
    dp_openmetrics_print(&out,
                         "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><title>deltaprof serve</title>\n"
                         "<h1>Profiled processes</h1>\n<table border=\"1\" cellpadding=\"4\">\n"
                         "<tr><th>pid<th>program<th>age<th>in use, bytes<th>of this process alone\n");
    for (size_t i = 0; i < f->workers.at.n; i++)
        print_process(&out, f->workers.at.at[i]);
    dp_openmetrics_print(&out,
                         "</table>\n<p>%llu processes have ended; what they did is part of all sums.</p>\n<h1>Of all "
                         "processes</h1>\n<ul>\n",
                         (unsigned long long)f->workers.n_ended);
    for (size_t i = 0; (endpoint = dp_kind_endpoint_at(i, &kind)); i++)
        if (dp_serve_workers_tell(kind))
            print_endpoint(f, &out, endpoint, kind);
    dp_openmetrics_print(
        &out, "<li><a href=\"view\">view</a>: the page, live\n<li><a href=\"metrics\">metrics</a>: OpenMetrics\n"
              "<li><a href=\"waits\">waits</a>: who waits now, for what, held by whom\n</ul>\n"
              "<p>Rows have the label pid. <code>?pid=N</code>: one process.</p>\n</html>\n");
    return out.err;
}

/* ---- metrics ---- */

/* Of one process and kind, by type. */
struct sums {
    int64_t of[DP_KIND_TYPES_MAX];
    bool is_on; /* else its zeros say nothing */
};

/* w NULL: the processes that have ended. */
static void print_value(struct dp_openmetrics *out, unsigned kind, unsigned type, const struct dp_serve_worker *w,
                        int64_t value)
{
    const struct dp_kind_type *t = &dp_kind_table[kind].types[type];
    bool is_time = !strcmp(t->unit, "nanoseconds"), is_flow = t->nature == DP_KIND_FLOW;
    char name[64], labels[128] = "{state=\"ended\"}";
    if (w)
        snprintf(labels, sizeof labels, "{pid=\"%d\",program=\"%s\"}", (int)w->table.pid,
                 clean(w->table.program, name));
    if (is_time)
        dp_openmetrics_print(out, "deltaprof_%s_%s_seconds%s%s %lld.%09lld\n", dp_kind_table[kind].name, t->name,
                             is_flow ? "_total" : "", labels, (long long)(value / 1000000000),
                             (long long)(value % 1000000000));
    else
        dp_openmetrics_print(out, "deltaprof_%s_%s%s%s%s %lld\n", dp_kind_table[kind].name, t->name,
                             !strcmp(t->unit, "bytes") ? "_bytes" : "", is_flow ? "_total" : "", labels,
                             (long long)value);
}

static void add_up(struct sums *sums, const struct dp_serve_delta *delta)
{
    dp_serve_join_sums(delta, sums->of);
    for (size_t i = 0; i < DP_KIND_TYPES_MAX; i++)
        sums->is_on |= sums->of[i] != 0;
}

/* The sums of all processes, and of those that have ended. */
struct all_sums {
    const struct dp_serve_family *family;
    struct sums *at;
};

static int add_process(void *ctx, struct dp_serve_delta *delta)
{
    struct all_sums *all = ctx;
    const struct dp_serve_workers *workers = &all->family->workers;
    size_t i = 0;
    while (delta->pid && i < workers->at.n &&
           (workers->at.at[i]->table.pid != delta->pid || workers->at.at[i]->lives != (delta->turn != 0)))
        i++;
    add_up(&all->at[delta->pid ? i : workers->at.n], delta);
    return 0;
}

static void print_type(struct dp_serve_family *f, struct dp_openmetrics *out, unsigned kind, unsigned type,
                       const struct sums *sums)
{
    const struct dp_kind_type *t = &dp_kind_table[kind].types[type];
    const char *unit = !strcmp(t->unit, "nanoseconds") ? "seconds" : !strcmp(t->unit, "bytes") ? "bytes" : "";
    char name[96];
    snprintf(name, sizeof name, "%s_%s%s%s", dp_kind_table[kind].name, t->name, *unit ? "_" : "", unit);
    bool is_on = sums[f->workers.at.n].is_on;
    for (size_t i = 0; i < f->workers.at.n; i++)
        is_on |= sums[i].is_on;
    if (!is_on)
        return;
    dp_openmetrics_family(out, name, t->nature == DP_KIND_FLOW ? "counter" : "gauge", unit, "");
    for (size_t i = 0; i < f->workers.at.n; i++)
        if (sums[i].is_on)
            print_value(out, kind, type, f->workers.at.at[i], sums[i].of[type]);
    if (t->nature == DP_KIND_FLOW && sums[f->workers.at.n].is_on)
        print_value(out, kind, type, NULL, sums[f->workers.at.n].of[type]);
}

static void print_processes(struct dp_serve_family *f, struct dp_openmetrics *out)
{
    size_t n = 0;
    for (size_t i = 0; i < f->workers.at.n; i++)
        n += f->workers.at.at[i]->lives;
    dp_openmetrics_family(out, "processes", "gauge", "", "Profiled processes that run.");
    dp_openmetrics_print(out, "deltaprof_processes %zu\n", n);
    dp_openmetrics_family(out, "ended_processes", "counter", "", "Profiled processes that have ended.");
    dp_openmetrics_print(out, "deltaprof_ended_processes_total %llu\n", (unsigned long long)f->workers.n_ended);
    dp_openmetrics_family(out, "unreadable_tables", "counter", "",
                          "Tables of processes, or profiles of them, that could not be read.");
    dp_openmetrics_print(out, "deltaprof_unreadable_tables_total %llu\n", (unsigned long long)f->workers.n_failed);
}

int dp_serve_pages_metrics(struct dp_serve_family *f, dp_pprof_write_fn fn, void *ctx)
{
    struct dp_openmetrics out = {.fn = fn, .ctx = ctx};
    size_t n = f->workers.at.n;
    DP_VEC(struct sums) sums = {0};
    print_processes(f, &out);
    if (!dp_vec_room(&sums, n + 1))
        return -ENOMEM;
    dp_serve_workers_refresh(&f->workers);
    for (unsigned kind = 0; kind < DP_KIND_TABLES && !out.err; kind++) {
        if (!dp_serve_workers_tell(kind))
            continue;
        memset(sums.at, 0, (n + 1) * sizeof *sums.at);
        for (size_t i = 0; i < n; i++)
            sums.at[i].is_on = f->workers.at.at[i]->table.samples[kind];
        sums.at[n].is_on = f->workers.was_on[kind];
        out.err = dp_serve_workers_since_start(&f->workers, kind, 0, add_process, &(struct all_sums){f, sums.at});
        for (unsigned type = 0; type < dp_kind_table[kind].n_values; type++)
            print_type(f, &out, kind, type, sums.at);
    }
    dp_openmetrics_print(&out, "# EOF\n");
    dp_vec_fini(&sums);
    return out.err;
}
