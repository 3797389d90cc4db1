/* SPDX-License-Identifier: MIT */
/* tool/cli/timeline.c - `deltaprof timeline`: writes events as a trace for Perfetto or Firefox Profiler. */
#include "tool/cli/cli.h"
#include "tool/cli/live.h"
#include "tool/cli/options.h"
#include "tool/cli/out.h"
#include "tool/query/print.h"
#include "tool/query/files.h"
#include "tool/query/paths.h"
#include "profile/kinds.h"
#include "tool/formats/timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char about[] =
    "Writes the events in profiles of kind `events` (deltaprof run -o events=on) as a trace, ordered by time and by\n"
    "thread. Each event has its values, labels and stack.\n"
    "\n"
    "In Perfetto (ui.perfetto.dev), waits are slices, allocations and unlocks are instants, and memory is two\n"
    "counters; with wall_rate, a track below each thread has its states. In Firefox Profiler\n"
    "(profiler.firefox.com), allocations are native allocations, and waits and states are markers. If a PATH is a\n"
    "directory, the heap profiles beside the events give the counter of memory in use.\n"
    "\n"
    "  -o OUT          where to write the trace; OUT.pftrace and OUT.perfetto-trace are for Perfetto, OUT.json is\n"
    "                  for Firefox Profiler\n"
    "  --to FORMAT     perfetto or firefox, for any other name of OUT\n"
    "  --limit BYTES   the largest size of a FILE after decompression (k M G; default 1G)\n";

enum format { UNKNOWN, PERFETTO, FIREFOX };

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && !strcmp(text + n - n_end, end);
}

static enum format format_of(const char *name, const char *path)
{
    if (name)
        return !strcmp(name, "perfetto") ? PERFETTO : !strcmp(name, "firefox") ? FIREFOX : UNKNOWN;
    if (path && (ends_with(path, ".pftrace") || ends_with(path, ".perfetto-trace")))
        return PERFETTO;
    return path && ends_with(path, ".json") ? FIREFOX : UNKNOWN;
}

/* The process of a file, by its name; else by its main program, which has no number. */
static struct dp_formats_timeline_process process_of(const char *file, const struct dp_decode *d)
{
    struct dp_formats_timeline_process process = {.name = "", .pid = 1};
    struct dp_query_file name;
    if (dp_query_file_parse(file, &name)) {
        snprintf(process.name, sizeof process.name, "%.*s", (int)name.n_program, name.program);
        process.pid = strtoll(name.program + name.n_program + 1, NULL, 10);
        return process;
    }
    size_t n_bytes = 0;
    const char *path = d->mappings.n ? dp_decode_text(d, d->mappings.at[0].file, &n_bytes) : "";
    const char *slash = n_bytes ? memrchr(path, '/', n_bytes) : NULL;
    if (slash)
        n_bytes -= (size_t)(slash + 1 - path);
    snprintf(process.name, sizeof process.name, "%.*s", (int)n_bytes, slash ? slash + 1 : path);
    return process;
}

/* The kind by the file's name; DP_KINDS: it is named otherwise. */
static unsigned kind_of(const char *file)
{
    struct dp_query_file name;
    return dp_query_file_parse(file, &name) ? name.kind_id : DP_KINDS;
}

/* Whether its files have levels, for a curve. */
static bool has_levels(unsigned kind)
{
    return kind < DP_KINDS && dp_kind_has_levels(kind);
}

/* Files of kinds with flows alone say nothing of single events. */
static bool is_skipped(unsigned kind)
{
    return kind < DP_KIND_DELTAS && !has_levels(kind);
}

static int read_all(struct dp_formats_timeline *timeline, const struct dp_query_paths *paths, size_t limit_bytes,
                    bool is_quiet)
{
    struct dp_query_source source = {.is_quiet = is_quiet};
    int status = 0;
    for (size_t i = 0; i < paths->n && !status; i++) {
        struct dp_decode_error error;
        const char *file = paths->at[i];
        unsigned kind = kind_of(file);
        if (is_skipped(kind))
            continue;
        status = dp_query_read_file("timeline", file, limit_bytes, &source);
        if (status)
            break;
        struct dp_formats_timeline_process process = process_of(file, &source.decode);
        int err = has_levels(kind) ? dp_formats_timeline_add_level(timeline, &source.decode, &process, &error)
                                   : dp_formats_timeline_add(timeline, &source.decode, &process, &error);
        if (err)
            status = err != -ENOMEM && is_quiet ? DP_QUERY_BROKEN : dp_query_refuse("timeline", file, err, &error);
    }
    dp_query_source_fini(&source);
    return status;
}

static int write_out(struct dp_formats_timeline *timeline, enum format format, const char *path)
{
    struct dp_cli_out out;
    dp_formats_timeline_sort(timeline);
    int status = dp_cli_out_open_plain(&out, "timeline", path);
    if (status)
        return status;
    int err = format == PERFETTO ? dp_formats_timeline_write_perfetto(timeline, dp_cli_out_write, &out)
                                 : dp_formats_timeline_write_firefox(timeline, dp_cli_out_write, &out);
    return dp_cli_out_close(&out, err);
}

static int show(struct dp_query_paths *paths, enum format format, const char *path, size_t limit_bytes)
{
    struct dp_formats_timeline timeline = {.begin_ns = 0};
    int status = read_all(&timeline, paths, limit_bytes, dp_query_may_sift(paths));
    while (status == DP_QUERY_BROKEN) {
        size_t n_before = paths->n;
        dp_formats_timeline_fini(&timeline);
        timeline = (struct dp_formats_timeline){.begin_ns = 0};
        status = dp_query_skip_broken(paths, "timeline", limit_bytes);
        if (!status)
            status = read_all(&timeline, paths, limit_bytes, paths->n < n_before && dp_query_may_sift(paths));
    }
    if (!status && !timeline.events.n) {
        dp_query_print_error("timeline",
                             "no sample has a time; profiles with times are made by deltaprof run -o events=on");
        status = DP_EXIT_FAILED;
    }
    if (!status && timeline.n_untimed)
        dp_query_print_error("timeline", "%zu sample%s without a time %s left out", timeline.n_untimed,
                             timeline.n_untimed == 1 ? "" : "s", timeline.n_untimed == 1 ? "is" : "are");
    if (!status)
        status = write_out(&timeline, format, path);
    dp_formats_timeline_fini(&timeline);
    return status;
}

int dp_cli_timeline(int argc, char **argv)
{
    const char *to = NULL;
    const struct dp_cli_option own[] = {{"to", &to, NULL}, {0}};
    struct dp_cli_output output;
    if (dp_cli_help(argc, argv, about))
        return 0;
    if (dp_cli_options_read(argc, argv, own, &output))
        return DP_EXIT_USAGE;
    enum format format = format_of(to, output.path);
    if (optind == argc || format == UNKNOWN) {
        if (to && format == UNKNOWN)
            dp_query_print_error("timeline", "--to %s: perfetto or firefox", to);
        else
            dp_query_print_error("timeline", optind == argc ? "no file given: deltaprof timeline PATH... -o OUT"
                                                            : "which format? -o FILE.pftrace, -o FILE.json, or --to");
        return DP_EXIT_USAGE;
    }
    struct dp_query_paths paths = {.n = 0};
    int status = dp_cli_live_begin("timeline", argv + optind, argc - optind);
    if (!status)
        status = dp_query_paths_add_all(&paths, "timeline", argv + optind, (size_t)(argc - optind));
    if (!status)
        status = show(&paths, format, output.path, output.limit_bytes);
    dp_query_paths_fini(&paths);
    return status;
}
