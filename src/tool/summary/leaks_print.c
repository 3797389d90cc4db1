/* SPDX-License-Identifier: MIT */
/*
 * tool/summary/leaks_print.c - prints leaks: the sizes, the numbers that make the verdict, and the stack from the
 * user's own code on; below them what was found to be no leak.
 */
#include "tool/summary/heading.h"
#include "tool/summary/leaks.h"
#include "tool/query/json.h"
#include "tool/query/print.h"
#include "tool/query/units.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { NAME_COLUMN = 4 };

#define NO_CONFIDENCE 0.005 /* of a suspect: less is 0 % */

/* Fills view.stack with the frames of a leak; the first of them. */
static int frames_of(struct dp_summary_leaks *r, const struct dp_leaks_row *leak, size_t *from)
{
    int shown = dp_query_row(&r->view, leak->row);
    *from = leak->n_own < r->view.stack.n ? leak->n_own : 0;
    return shown < 0 ? shown : 0;
}

static void json_frame(const struct dp_query *v, uint32_t frame, const char *separator)
{
    const struct dp_query_naming_frame *f = &v->frames.at.at[frame];
    dp_query_print_json_text(separator, "function", dp_query_naming_frames_text(&v->frames, f->name));
    dp_query_print_json_text(",", "file", f->file ? dp_query_naming_frames_text(&v->frames, f->file) : "");
    dp_query_print_json_number(",", "line", f->line);
}

/* Whether a stack grows without a sign of an end, so that neither a rate nor a confidence can be told. */
static bool is_open(const struct dp_leaks_row *row)
{
    return row->evidence.is_open && row->confidence < NO_CONFIDENCE;
}

static void json_evidence(const struct dp_leaks_row *row)
{
    const struct dp_leaks_evidence *e = &row->evidence;
    static const char *const verdicts[] = {[DP_LEAKS_GROWING] = "growing",
                                           [DP_LEAKS_DOUBLING] = "doubling",
                                           [DP_LEAKS_FILLED] = "filled",
                                           [DP_LEAKS_ONCE] = "once",
                                           [DP_LEAKS_STEADY] = "steady"};
    dp_query_print_json_text(",", "verdict", is_open(row) ? "open" : verdicts[e->kind]);
    dp_query_print_json_number(",", "ticks_up", (int64_t)e->n_up);
    dp_query_print_json_number(",", "ticks_down", (int64_t)e->n_down);
    dp_query_print_json_number(",", "ticks", (int64_t)e->n_steps);
    dp_query_print_json_fraction(",", "chance", e->chance);
    dp_query_print_json_fraction(",", "ended", e->ended);
    dp_query_print_json_fraction(",", "load", e->by_load);
    dp_query_print_json_fraction(",", "freed", e->freed);
    dp_query_print_json_number(",", "sampled_blocks", (int64_t)e->n_sampled);
}

static int json_rows(struct dp_summary_leaks *r, const struct dp_leaks_row *rows, size_t n)
{
    const struct dp_query *v = &r->view;
    for (size_t i = 0; i < n; i++) {
        const struct dp_leaks_row *row = &rows[i];
        size_t from;
        if (frames_of(r, row, &from))
            return -ENOMEM;
        json_frame(v, v->stack.at[from], i ? ",\n{" : "\n{");
        dp_query_print_json_number(",", "bytes", (int64_t)row->bytes);
        dp_query_print_json_number(",", "bytes_per_hour", (int64_t)row->bytes_per_hour);
        dp_query_print_json_fraction(",", "confidence", row->confidence);
        dp_query_print_json_number(",", "since_ns", row->since_ns);
        json_evidence(row);
        fputs(",\"stack\":[", stdout);
        for (size_t j = from; j < v->stack.n; j++) {
            json_frame(v, v->stack.at[j], j > from ? ",{" : "{");
            putchar('}');
        }
        fputs("]}", stdout);
    }
    return 0;
}

int dp_summary_leaks_json(struct dp_summary_leaks *r, size_t n)
{
    const struct dp_leaks *judge = &r->judge;
    dp_query_print_json_text("{", "verdict", dp_leaks_verdict_text(judge->verdict));
    dp_query_print_json_text(",", "needs", judge->needs);
    dp_query_print_json_number(",", "in_use_bytes", (int64_t)judge->in_use);
    dp_query_print_json_number(",", "ticks", (int64_t)judge->n_ticks);
    dp_query_print_json_number(",", "samples", (int64_t)judge->n_samples);
    dp_query_print_json_number(",", "work_ns", (int64_t)judge->work_ns);
    fputs(",\"leaks\":[", stdout);
    if (json_rows(r, judge->leaks.at, n))
        return -ENOMEM;
    fputs("],\"suspects\":[", stdout);
    if (json_rows(r, judge->suspects.at, judge->suspects.n))
        return -ENOMEM;
    fputs("],\"open\":[", stdout);
    if (judge->verdict == DP_LEAKS_CANNOT_TELL) {
        dp_query_print_json_text("{", "kind", "leak");
        dp_query_print_json_text(",", "needs", judge->needs);
        putchar('}');
    }
    puts("]}");
    return 0;
}

static void print_stack(const struct dp_summary_leaks *r, size_t from)
{
    const struct dp_query *v = &r->view;
    size_t n_columns = dp_query_print_columns(), n = v->stack.n - from;
    for (size_t i = 0; i < n; i++) /* skips the frames that call main */
        if (!strcmp(dp_query_naming_frames_text(&v->frames, v->frames.at.at[v->stack.at[from + i]].name), "main"))
            n = i + 1;
    size_t n_shown = r->n_frames && r->n_frames < n ? r->n_frames : n;
    for (size_t i = from; i < from + n_shown; i++) {
        const struct dp_query_naming_frame *f = &v->frames.at.at[v->stack.at[i]];
        const char *file = f->file ? dp_query_naming_frames_text(&v->frames, f->file) : "", *slash = strrchr(file, '/');
        char place[256] = "";
        int n_file = *file ? snprintf(place, sizeof place, "  %.200s", slash ? slash + 1 : file) : 0;
        if (*file && f->line > 0)
            snprintf(place + n_file, sizeof place - (size_t)n_file, ":%lld", (long long)f->line);
        size_t n_used = NAME_COLUMN + strlen(place);
        if (n_columns && n_columns < n_used + 8) /* a narrow terminal: the function counts most */
            n_used -= strlen(place), place[0] = '\0';
        printf("%*s%s", NAME_COLUMN, "", i == from ? dp_query_print_colour(DP_COLOUR_HEAD) : "");
        dp_query_print_name(stdout, dp_query_naming_frames_text(&v->frames, f->name),
                            dp_query_print_room(n_columns, n_used));
        dp_query_print_name(stdout, place, 0);
        puts(i == from ? dp_query_print_colour(DP_COLOUR_NONE) : "");
    }
    if (n_shown < n)
        printf("%*s(%zu more)\n", NAME_COLUMN, "", n - n_shown);
}

/* Of a share as a percentage: 0.14, 61, 100. */
static int digits(double share)
{
    return share < 0.995 ? 2 : 3;
}

/* The numbers that make the verdict. */
static void print_evidence(const struct dp_leaks *judge, const struct dp_leaks_row *row)
{
    const struct dp_leaks_evidence *e = &row->evidence;
    fputs(dp_query_print_colour(DP_COLOUR_LESS), stdout);
    double freed = e->freed * e->n_sampled < 0.5 ? 0 : e->freed; /* less than one of them is rounding */
    if (e->kind == DP_LEAKS_DOUBLING)
        printf("%*swas made larger %zu times, by 30 %% or more, and is not overdue for the next time\n", NAME_COLUMN,
               "", e->n_up);
    else
        printf("%*sgrew in %zu of %zu ticks, shrank in %zu; %.3g%% of %.0f samples were freed\n", NAME_COLUMN, "",
               e->n_up, e->n_steps, e->n_down, 100 * freed, e->n_sampled);
    if (dp_leaks_may_be_filling(judge, row))
        printf("%*sa cache that still fills looks the same in so few ticks\n", NAME_COLUMN, "");
    if (e->by_cpu)
        printf("%*sif it was idle in the ticks without an allocation, and not busy otherwise, it is a leak\n",
               NAME_COLUMN, "");
    if (!is_open(row)) {
        printf("%*schance of another cause: it has ended %.*g%%", NAME_COLUMN, "", digits(e->ended), 100 * e->ended);
        if (e->by_load >= 0.01)
            printf(", a higher load %.*g%%", digits(e->by_load), 100 * e->by_load);
        printf(", chance %.*g%%%s\n", digits(e->chance), 100 * e->chance, dp_query_print_colour(DP_COLOUR_NONE));
    } else {
        printf("%*sgrew by more than chance from the first to the last quarter of the work; that this ended is not "
               "seen%s\n",
               NAME_COLUMN, "", dp_query_print_colour(DP_COLOUR_NONE));
    }
}

static int print_row(struct dp_summary_leaks *r, const struct dp_leaks_row *row)
{
    char bytes[32], rate[32], since[64] = "", more[128] = "";
    time_t seconds = (time_t)(row->since_ns / 1000000000);
    struct tm tm;
    size_t from;
    dp_query_print_unit(bytes, sizeof bytes, (int64_t)row->bytes, "bytes");
    dp_query_print_unit(rate, sizeof rate, (int64_t)row->bytes_per_hour, "bytes");
    if (row->since_ns && localtime_r(&seconds, &tm))
        strftime(since, sizeof since, " since %H:%M:%S", &tm);
    if (row->bytes_per_hour > 0)
        snprintf(more, sizeof more, ", %s more an hour%s", rate, since);
    if (!is_open(row))
        printf("%s in use%s, confidence %.0f%%\n", bytes, more, 100 * row->confidence);
    else
        printf("%s in use%s, open whether it grows\n", bytes, since);
    if (row->n_processes > 1)
        printf("%*sin %zu processes; of the one that has most, %s:\n", NAME_COLUMN, "", row->n_processes,
               r->judge.series.processes.at[row->process].name);
    print_evidence(&r->judge, row);
    if (frames_of(r, row, &from))
        return -ENOMEM;
    print_stack(r, from);
    return 0;
}

static void print_tally(const struct dp_leaks_tally *tally, const char *one, const char *many)
{
    char bytes[32];
    dp_query_print_unit(bytes, sizeof bytes, (int64_t)tally->bytes, "bytes");
    if (tally->n)
        printf("%10s in %zu stack%s %s\n", bytes, tally->n, tally->n == 1 ? "" : "s", tally->n == 1 ? one : many);
}

static void print_heading(const struct dp_summary_leaks *r)
{
    char bytes[32], work[32];
    dp_query_print_unit(work, sizeof work, (int64_t)r->judge.work_ns, "nanoseconds");
    dp_query_print_unit(bytes, sizeof bytes, (int64_t)r->judge.in_use, "bytes");
    if (r->judge.series.processes.n == 1 && *r->judge.series.processes.at[0].name)
        printf("%s: ", r->judge.series.processes.at[0].name);
    else
        printf("%zu processes: ", r->judge.series.processes.n);
    printf("%s in use", bytes);
    if (fabs(r->judge.in_use - r->judge.in_use_before) > 0.01 * r->judge.in_use_before) {
        dp_query_print_unit(bytes, sizeof bytes, (int64_t)r->judge.in_use_before, "bytes");
        printf(" at exit, %s a tick before", bytes);
    }
    printf(", %zu file%s\n", r->view.paths.n, r->view.paths.n == 1 ? "" : "s");
    if (r->judge.n_ticks)
        printf("Looked at: %zu tick%s with %.0f samples in %s of work\n", r->judge.n_ticks,
               r->judge.n_ticks == 1 ? "" : "s", r->judge.n_samples, work);
}

static void print_verdict(const struct dp_summary_leaks *r)
{
    const struct dp_leaks *judge = &r->judge;
    if (judge->verdict == DP_LEAKS_LEAK)
        printf("%s%zu leak%s%s\n\n", dp_query_print_colour(DP_COLOUR_BAD), judge->leaks.n,
               judge->leaks.n == 1 ? "" : "s", dp_query_print_colour(DP_COLOUR_NONE));
    else if (judge->verdict == DP_LEAKS_CANNOT_TELL && judge->in_use < 1 && judge->n_samples < 1 &&
             dp_query_filters(&r->view))
        puts("No sample is left: --label, --focus, --ignore or --hide leave all of them out.");
    else if (judge->verdict == DP_LEAKS_CANNOT_TELL)
        printf("%sCannot tell: %s%s\n", dp_query_print_colour(DP_COLOUR_WARN), judge->needs,
               dp_query_print_colour(DP_COLOUR_NONE));
    else
        printf("%sNo leak: no growth was seen that goes on.%s\n", dp_query_print_colour(DP_COLOUR_GOOD),
               dp_query_print_colour(DP_COLOUR_NONE));
}

int dp_summary_leaks_print(struct dp_summary_leaks *r, size_t n)
{
    const struct dp_leaks *judge = &r->judge;
    int err = 0;
    print_heading(r);
    print_verdict(r);
    for (size_t i = 0; i < n && !err; i++) {
        printf("%2zu. ", i + 1);
        err = print_row(r, &judge->leaks.at[i]);
        putchar('\n');
    }
    if (n < judge->leaks.n)
        printf("%zu more (-n 0 shows all)\n", judge->leaks.n - n);
    if (judge->suspects.n && !judge->leaks.n && !err) {
        fputs("Closest to a leak: ", stdout);
        err = print_row(r, &judge->suspects.at[0]);
    }
    if (judge->filled.n + judge->steady.n + judge->libraries.n)
        puts(judge->verdict == DP_LEAKS_CANNOT_TELL ? "Less likely:" : "Not leaks:");
    print_tally(&judge->filled, "that grew and stopped (a cache, a table)", "that grew and stopped (caches, tables)");
    if (judge->n_ticks < DP_LEAKS_TICKS_NEEDED)
        print_tally(&judge->steady, "that was seen too briefly", "that were seen too briefly");
    else
        print_tally(&judge->steady, "that stays as it is, or goes up and down",
                    "that stay as they are, or go up and down");
    print_tally(&judge->libraries, "of libraries", "of libraries");
    dp_summary_heading_losses(&r->view);
    return err;
}
