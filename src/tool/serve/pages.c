/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/pages.c - writes the index and the metrics.
 *
 * Source of the metrics: the OpenMetrics specification 1.0. Each sample type of a kind is a family: flows are counters,
 * levels are gauges, nanoseconds become seconds.
 */
#include "tool/serve/pages.h"

#include "tool/serve/join.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct out {
    dp_pprof_write_fn fn;
    void *ctx;
    int err; /* the first; later lines are dropped */
};

static void print(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void print(struct out *out, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (!out->err)
        out->err = n < 0 || (size_t)n >= sizeof line ? -EMSGSIZE : out->fn(out->ctx, line, (size_t)n);
}

/* A program's name is what its maker chose: only harmless letters are shown. */
static const char *clean(const char *name, char text[64])
{
    size_t n = 0;
    for (; *name && n < 63; name++)
        text[n++] = strchr("<>&\"'\\", *name) || (unsigned char)*name < ' ' ? '?' : *name;
    text[n] = '\0';
    return text;
}

static void print_process(struct out *out, const struct dp_serve_worker *w)
{
    char name[64], in_use[32] = "-";
    const struct dp_recover_table *t = &w->table;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (w->inuse_bytes >= 0)
        snprintf(in_use, sizeof in_use, "%lld", (long long)w->inuse_bytes);
    print(out,
          "<tr><td>%d<td>%s<td>%lld s<td>%s<td><a href=\"delta_heap?pid=%d\">delta_heap</a> "
          "<a href=\"delta_block?pid=%d\">delta_block</a> <a href=\"delta_mutex?pid=%d\">delta_mutex</a>\n",
          (int)t->pid, clean(t->program, name), (long long)(now.tv_sec - t->begin_wall_ns / 1000000000), in_use,
          (int)t->pid, (int)t->pid, (int)t->pid);
}

int dp_serve_pages_index(struct dp_serve_family *f, dp_pprof_write_fn fn, void *ctx)
{
    struct out out = {.fn = fn, .ctx = ctx};
    const struct dp_kind_endpoint *endpoint;
    unsigned kind;
    print(&out, "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><title>deltaprof serve</title>\n"
                "<h1>Profiled processes</h1>\n<table border=\"1\" cellpadding=\"4\">\n"
                "<tr><th>pid<th>program<th>age<th>in use, bytes<th>of this process alone\n");
    for (size_t i = 0; i < f->workers.at.n; i++)
        print_process(&out, f->workers.at.at[i]);
    print(&out,
          "</table>\n<p>%llu processes have ended; what they did is part of all sums.</p>\n<h1>Of all "
          "processes</h1>\n<ul>\n",
          (unsigned long long)f->workers.n_ended);
    for (size_t i = 0; (endpoint = dp_kind_endpoint_at(i, &kind)); i++)
        if (dp_serve_workers_tell(kind))
            print(&out, "<li><a href=\"%s\">%s</a>: %s\n", endpoint->name, endpoint->name, endpoint->words);
    print(&out,
          "<li><a href=\"view\">view</a>: the page, live\n<li><a href=\"metrics\">metrics</a>: OpenMetrics\n</ul>\n"
          "<p>Rows have the label pid. <code>?pid=N</code>: one process.</p>\n</html>\n");
    return out.err;
}

/* ---- metrics ---- */

/* Of one process and kind, by type. */
struct sums {
    int64_t of[DP_KIND_TYPES_MAX];
};

/* w NULL: the processes that have ended. */
static void print_value(struct out *out, unsigned kind, unsigned type, const struct dp_serve_worker *w, int64_t value)
{
    const struct dp_kind_type *t = &dp_kind_table[kind].types[type];
    bool is_time = !strcmp(t->unit, "nanoseconds"), is_flow = t->nature == DP_KIND_FLOW;
    char name[64], labels[128] = "{state=\"ended\"}";
    if (w)
        snprintf(labels, sizeof labels, "{pid=\"%d\",program=\"%s\"}", (int)w->table.pid,
                 clean(w->table.program, name));
    if (is_time)
        print(out, "deltaprof_%s_%s_seconds%s%s %lld.%09lld\n", dp_kind_table[kind].name, t->name,
              is_flow ? "_total" : "", labels, (long long)(value / 1000000000), (long long)(value % 1000000000));
    else
        print(out, "deltaprof_%s_%s%s%s%s %lld\n", dp_kind_table[kind].name, t->name,
              !strcmp(t->unit, "bytes") ? "_bytes" : "", is_flow ? "_total" : "", labels, (long long)value);
}

static int keep_sums(void *ctx, struct dp_serve_delta *delta)
{
    dp_serve_join_sums(delta, ctx);
    return 0;
}

static void print_type(struct dp_serve_family *f, struct out *out, unsigned kind, unsigned type,
                       const struct sums *sums)
{
    const struct dp_kind_type *t = &dp_kind_table[kind].types[type];
    bool is_time = !strcmp(t->unit, "nanoseconds");
    const char *unit = is_time ? "_seconds" : !strcmp(t->unit, "bytes") ? "_bytes" : "";
    print(out, "# TYPE deltaprof_%s_%s%s %s\n", dp_kind_table[kind].name, t->name, unit,
          t->nature == DP_KIND_FLOW ? "counter" : "gauge");
    if (*unit)
        print(out, "# UNIT deltaprof_%s_%s%s %s\n", dp_kind_table[kind].name, t->name, unit, unit + 1);
    for (size_t i = 0; i < f->workers.at.n; i++)
        print_value(out, kind, type, f->workers.at.at[i], sums[i].of[type]);
    if (t->nature == DP_KIND_FLOW)
        print_value(out, kind, type, NULL, sums[f->workers.at.n].of[type]);
}

int dp_serve_pages_metrics(struct dp_serve_family *f, dp_pprof_write_fn fn, void *ctx)
{
    struct out out = {.fn = fn, .ctx = ctx};
    size_t n = f->workers.at.n;
    DP_VEC(struct sums) sums = {0};
    print(&out,
          "# TYPE deltaprof_processes gauge\n# HELP deltaprof_processes Profiled processes that run.\n"
          "deltaprof_processes %zu\n# TYPE deltaprof_ended_processes counter\n"
          "# HELP deltaprof_ended_processes Profiled processes that have ended.\n"
          "deltaprof_ended_processes_total %llu\n# TYPE deltaprof_unreadable_tables counter\n"
          "# HELP deltaprof_unreadable_tables Tables of processes, or profiles of them, that could not be read.\n"
          "deltaprof_unreadable_tables_total %llu\n",
          n, (unsigned long long)f->workers.n_ended, (unsigned long long)f->workers.n_failed);
    if (!dp_vec_room(&sums, n + 1))
        return -ENOMEM;
    for (unsigned kind = 0; kind < DP_KIND_TABLES && !out.err; kind++) {
        if (!dp_serve_workers_tell(kind))
            continue;
        memset(sums.at, 0, (n + 1) * sizeof *sums.at);
        out.err = dp_serve_workers_collect(&f->workers, kind, dp_serve_cursors_add, &f->cursors);
        for (size_t i = 0; i < n && !out.err; i++)
            out.err = dp_serve_workers_since_start(&f->workers, kind, f->workers.at.at[i]->table.pid, keep_sums,
                                                   sums.at[i].of);
        if (f->workers.ended[kind])
            dp_serve_join_sums(f->workers.ended[kind], sums.at[n].of);
        for (unsigned type = 0; type < dp_kind_table[kind].n_values; type++)
            print_type(f, &out, kind, type, sums.at);
    }
    print(&out, "# EOF\n");
    dp_vec_fini(&sums);
    return out.err;
}
