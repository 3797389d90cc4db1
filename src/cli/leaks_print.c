/* SPDX-License-Identifier: MIT */
/*
 * cli/leaks_print.c - prints leaks: the sizes, the numbers that make the verdict, and the stack from the user's own
 * code on; below them what was found to be no leak.
 */
#include "cli/heading.h"
#include "cli/leaks.h"
#include "print/json.h"
#include "print/print.h"
#include "print/units.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { NAME_COLUMN = 4 };

/* Fills view.stack with the frames of a leak; the first of them. */
static int frames_of(struct dp_cli_leaks *r, const struct dp_cli_leak *leak, size_t *from)
{
    int shown = dp_query_row(&r->view, leak->row);
    *from = leak->n_own < r->view.stack.n ? leak->n_own : 0;
    return shown < 0 ? shown : 0;
}

static void json_frame(const struct dp_query *v, uint32_t frame, const char *separator)
{
    const struct dp_naming_frame *f = &v->frames.at.at[frame];
    dp_print_json_text(separator, "function", dp_naming_frames_text(&v->frames, f->name));
    dp_print_json_text(",", "file", f->file ? dp_naming_frames_text(&v->frames, f->file) : "");
    dp_print_json_number(",", "line", f->line);
}

static void json_evidence(const struct dp_query_evidence *e)
{
    static const char *const verdicts[] = {
        [DP_QUERY_GROWING] = "growing", [DP_QUERY_DOUBLING] = "doubling", [DP_QUERY_LEFT] = "left",
        [DP_QUERY_FILLED] = "filled",   [DP_QUERY_ONCE] = "once",         [DP_QUERY_STEADY] = "steady"};
    dp_print_json_text(",", "verdict", verdicts[e->verdict]);
    dp_print_json_number(",", "ticks_up", (int64_t)e->n_up);
    dp_print_json_number(",", "ticks_down", (int64_t)e->n_down);
    dp_print_json_number(",", "ticks", (int64_t)e->n_steps);
    dp_print_json_fraction(",", "chance", e->chance);
    dp_print_json_fraction(",", "pace", e->pace);
    dp_print_json_fraction(",", "load", e->load);
    dp_print_json_fraction(",", "freed", e->freed);
    dp_print_json_number(",", "sampled_blocks", (int64_t)e->n_sampled);
}

int dp_cli_leaks_json(struct dp_cli_leaks *r, size_t n)
{
    const struct dp_query *v = &r->view;
    dp_print_json_number("{", "in_use_bytes", (int64_t)r->in_use);
    fputs(",\"leaks\":[", stdout);
    for (size_t i = 0; i < n; i++) {
        const struct dp_cli_leak *leak = &r->leaks.at[i];
        size_t from;
        if (frames_of(r, leak, &from))
            return -ENOMEM;
        json_frame(v, v->stack.at[from], i ? ",\n{" : "\n{");
        dp_print_json_number(",", "bytes", (int64_t)leak->bytes);
        dp_print_json_number(",", "bytes_per_hour", (int64_t)leak->bytes_per_hour);
        dp_print_json_fraction(",", "confidence", leak->confidence);
        dp_print_json_number(",", "since_ns", leak->since_ns);
        json_evidence(&leak->evidence);
        fputs(",\"stack\":[", stdout);
        for (size_t j = from; j < v->stack.n; j++) {
            json_frame(v, v->stack.at[j], j > from ? ",{" : "{");
            putchar('}');
        }
        fputs("]}", stdout);
    }
    puts("]}");
    return 0;
}

static void print_stack(const struct dp_cli_leaks *r, size_t from)
{
    const struct dp_query *v = &r->view;
    size_t n_columns = dp_print_columns(), n = v->stack.n - from;
    for (size_t i = 0; i < n; i++) /* skips the frames that call main */
        if (!strcmp(dp_naming_frames_text(&v->frames, v->frames.at.at[v->stack.at[from + i]].name), "main"))
            n = i + 1;
    size_t n_shown = r->n_frames && r->n_frames < n ? r->n_frames : n;
    for (size_t i = from; i < from + n_shown; i++) {
        const struct dp_naming_frame *f = &v->frames.at.at[v->stack.at[i]];
        const char *file = f->file ? dp_naming_frames_text(&v->frames, f->file) : "", *slash = strrchr(file, '/');
        char place[256] = "";
        if (*file)
            snprintf(place, sizeof place, "  %.200s:%lld", slash ? slash + 1 : file, (long long)f->line);
        size_t n_used = NAME_COLUMN + strlen(place);
        if (n_columns && n_columns < n_used + 8) /* a narrow terminal: the function counts most */
            n_used -= strlen(place), place[0] = '\0';
        printf("%*s", NAME_COLUMN, "");
        dp_print_name(stdout, dp_naming_frames_text(&v->frames, f->name), dp_print_room(n_columns, n_used));
        dp_print_name(stdout, place, 0);
        putchar('\n');
    }
    if (n_shown < n)
        printf("%*s(%zu more)\n", NAME_COLUMN, "", n - n_shown);
}

/* The numbers that make the verdict. */
static void print_evidence(const struct dp_query_evidence *e)
{
    char pace[48] = "";
    double freed = e->freed * e->n_sampled < 0.5 ? 0 : e->freed; /* less than one of them is rounding */
    if (e->verdict == DP_QUERY_DOUBLING)
        printf("%*sdoubled %zu times, each time when it was full, and is not full again yet\n", NAME_COLUMN, "",
               e->n_up);
    else if (e->verdict != DP_QUERY_LEFT)
        printf("%*sgrew in %zu of %zu ticks, shrank in %zu; chance: %.2g%% at most\n", NAME_COLUMN, "", e->n_up,
               e->n_steps, e->n_down, 100 * e->chance);
    if (e->verdict != DP_QUERY_DOUBLING && e->pace >= 0)
        snprintf(pace, sizeof pace, "last quarter at %.2g times its pace; ", e->pace);
    printf("%*s%s%.3g%% of %.0f samples were freed\n", NAME_COLUMN, "", pace, 100 * freed, e->n_sampled);
    if (e->load >= 0.01)
        printf("%*sa higher load explains %.0f%% of its growth\n", NAME_COLUMN, "", 100 * e->load);
}

static int print_leak(struct dp_cli_leaks *r, const struct dp_cli_leak *leak)
{
    char bytes[32], rate[32], since[64] = "";
    time_t seconds = (time_t)(leak->since_ns / 1000000000);
    struct tm tm;
    size_t from;
    dp_print_unit(bytes, sizeof bytes, (int64_t)leak->bytes, "bytes");
    dp_print_unit(rate, sizeof rate, (int64_t)leak->bytes_per_hour, "bytes");
    if (leak->since_ns && localtime_r(&seconds, &tm))
        strftime(since, sizeof since, " since %H:%M:%S", &tm);
    if (leak->is_left)
        printf("%s left at exit, almost nothing freed, confidence %.0f%%\n", bytes, 100 * leak->confidence);
    else
        printf("%s in use, %s more an hour%s, confidence %.0f%%\n", bytes, rate, since, 100 * leak->confidence);
    if (leak->n_processes > 1)
        printf("%*sin %zu processes; of the largest:\n", NAME_COLUMN, "", leak->n_processes);
    print_evidence(&leak->evidence);
    if (frames_of(r, leak, &from))
        return -ENOMEM;
    print_stack(r, from);
    return 0;
}

static void print_tally(const struct dp_cli_tally *tally, const char *one, const char *many)
{
    char bytes[32];
    dp_print_unit(bytes, sizeof bytes, (int64_t)tally->bytes, "bytes");
    if (tally->n)
        printf("%10s in %zu stack%s %s\n", bytes, tally->n, tally->n == 1 ? "" : "s", tally->n == 1 ? one : many);
}

/* Of the process that has most. */
static size_t most_ticks(const struct dp_cli_leaks *r)
{
    size_t most = 0;
    for (size_t i = 0; i < r->series.processes.n; i++)
        most = r->series.processes.at[i].n_points > most ? r->series.processes.at[i].n_points : most;
    return most;
}

static void print_heading(const struct dp_cli_leaks *r)
{
    char bytes[32], duration[32];
    size_t most = most_ticks(r);
    int64_t longest_ns = 0;
    for (size_t i = 0; i < r->series.processes.n; i++) {
        const struct dp_query_process *p = &r->series.processes.at[i];
        if (p->n_points && p->times_ns[p->n_points - 1] - p->start_ns > longest_ns)
            longest_ns = p->times_ns[p->n_points - 1] - p->start_ns;
    }
    dp_print_unit(bytes, sizeof bytes, (int64_t)r->in_use, "bytes");
    dp_print_unit(duration, sizeof duration, longest_ns, "nanoseconds");
    if (r->series.processes.n == 1 && *r->series.processes.at[0].name)
        printf("%s: ", r->series.processes.at[0].name);
    else
        printf("%zu processes: ", r->series.processes.n);
    printf("%s in use", bytes);
    if (fabs(r->in_use - r->in_use_before) > 0.01 * r->in_use_before) {
        dp_print_unit(bytes, sizeof bytes, (int64_t)r->in_use_before, "bytes");
        printf(" at exit, %s a tick before", bytes);
    }
    printf(", %zu file%s%s%s\n", r->view.paths.n, r->view.paths.n == 1 ? "" : "s", longest_ns ? ", " : "",
           longest_ns ? duration : "");
    if (most < DP_QUERY_TICKS_NEEDED) {
        printf("Too few ticks to see growth: %zu, of %d needed. A shorter interval makes more:\n"
               "deltaprof run -o interval=%s -- COMMAND\n"
               "When the most memory was in use: deltaprof top --at peak ",
               most, DP_QUERY_TICKS_NEEDED, dp_cli_interval(longest_ns));
        dp_print_argument(r->view.argument);
    }
}

int dp_cli_leaks_print(struct dp_cli_leaks *r, size_t n)
{
    int err = 0;
    print_heading(r);
    if (r->leaks.n)
        printf("%zu leak%s\n\n", r->leaks.n, r->leaks.n == 1 ? "" : "s");
    else if (r->in_use < 1 && !r->filled.n && !r->steady.n && !r->libraries.n && dp_query_filters(&r->view))
        puts("No sample is left: --label, --focus, --ignore or --hide leave all of them out.");
    else
        puts(most_ticks(r) < DP_QUERY_TICKS_NEEDED ? "No leak was seen in so few ticks."
                                                   : "No leak: no stack grows without end.");
    for (size_t i = 0; i < n && !err; i++) {
        printf("%2zu. ", i + 1);
        err = print_leak(r, &r->leaks.at[i]);
        putchar('\n');
    }
    if (n < r->leaks.n)
        printf("%zu more (-n 0 shows all)\n", r->leaks.n - n);
    if (!r->leaks.n && r->closest.confidence >= 0.1 && !err) {
        fputs("Closest to a leak: ", stdout);
        err = print_leak(r, &r->closest);
    }
    if (r->filled.n + r->steady.n + r->libraries.n)
        puts("Not leaks:");
    print_tally(&r->filled, "that grew and stopped (a cache, a table)", "that grew and stopped (caches, tables)");
    print_tally(&r->steady, "that stays as it is, or goes up and down", "that stay as they are, or go up and down");
    print_tally(&r->libraries, "of libraries", "of libraries");
    dp_cli_heading_losses(&r->view);
    return err;
}
