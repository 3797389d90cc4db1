/* SPDX-License-Identifier: MIT */
/* tool/summary/heading.c - prints the lines above and below a table, so that a reader knows what its numbers mean. */
#include "tool/summary/heading.h"

#include "tool/query/units.h"
#include "profile/kinds.h"
#include "tool/query/at.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY_PROGRAMS 8   /* are not all named */
#define WIDE          112 /* columns */

const char *dp_summary_interval(int64_t duration_ns)
{
    static const struct {
        int64_t ns;
        const char *text;
    } intervals[] = {{5000000000, "5s"}, {1000000000, "1s"}, {200000000, "200ms"}, {50000000, "50ms"}};
    for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++)
        if (duration_ns >= 16 * intervals[i].ns)
            return intervals[i].text;
    return "10ms";
}

double dp_summary_percent(int64_t part, int64_t whole)
{
    double percent = whole ? 100.0 * (double)part / (double)whole : 0;
    return fabs(percent) < 0.05 ? 0 : percent; /* not -0.0 */
}

static void print_when(const struct dp_query *v)
{
    const struct dp_model_header *header = &v->merge.header;
    char text[64];
    dp_query_at_text(text, sizeof text, header->time_ns);
    if (*text)
        printf(", from %s", text);
    if (header->duration_ns > 0) {
        dp_query_print_unit(text, sizeof text, header->duration_ns, "nanoseconds");
        printf(", %s", text);
    }
}

static void print_programs(const struct dp_strings *programs)
{
    size_t n = dp_strings_count(programs), n_named = n <= MANY_PROGRAMS + 1 ? n : MANY_PROGRAMS; /* 0 is "" */
    for (uint32_t i = 1; i < n_named; i++) {
        fputs(i > 1 ? ", " : n == 2 ? "Program: " : "Programs: ", stdout);
        dp_query_print_name(stdout, dp_strings_at(programs, i), 0);
    }
    if (n > n_named)
        printf(" and %zu more", n - n_named);
    if (n)
        putchar('\n');
}

static const char *plural(size_t n, const char *more)
{
    return n == 1 ? "" : more;
}

/* Prints of which processes and which time the in-use values are. */
static void print_processes(const struct dp_query *v)
{
    const struct dp_query_moments *ms = &v->moments;
    size_t n_files = v->paths.n;
    size_t n_columns = dp_query_print_columns();
    const char *gap = n_columns ? "\n      " : " "; /* on a terminal the line would be too long */
    const char *second_gap = n_columns && n_columns < WIDE ? gap : " ";
    char when[64], left[32];
    dp_query_at_text(when, sizeof when, ms->time_ns);
    dp_query_print_unit(left, sizeof left, ms->end_bytes, "bytes");
    printf(", in use by %zu process%s", ms->n_counted, plural(ms->n_counted, "es"));
    if (ms->which == DP_QUERY_AT_NOW && ms->n_ended)
        printf(",%sfrom the newest file of each (of %zu file%s; %zu process%s ended)", gap, n_files,
               plural(n_files, "s"), ms->n_ended, plural(ms->n_ended, "es"));
    else if (ms->which == DP_QUERY_AT_NOW)
        printf(",%sfrom %s newest file%s (of %zu file%s)", gap, ms->n_processes == 1 ? "its" : "the",
               ms->n_processes == 1 ? "" : " of each", n_files, plural(n_files, "s"));
    else if (ms->which == DP_QUERY_AT_PEAK && v->at == DP_QUERY_AT_USUAL)
        printf("%sat %s%s%s%s(of %zu file%s; %s ended, %s%s in use)", gap,
               ms->n_processes == 1 ? "its peak" : "the peak of the sum", *when ? ", " : "", when, second_gap, n_files,
               plural(n_files, "s"), ms->n_processes == 1 ? "it has" : "all have",
               ms->n_processes == 1 || !ms->end_bytes ? "with " : "each with at most ",
               ms->end_bytes ? left : "nothing");
    else if (ms->which == DP_QUERY_AT_TIME && *when)
        printf("%sat %s, by files until %s", gap, v->at_text, when);
    else if (ms->which == DP_QUERY_AT_LAST && ms->n_ended)
        printf("%sat the very end%s%s", gap, *when ? ", " : "", when);
    else
        printf("%sat %s%s%s", gap, v->at_text, *when ? ", " : "", when);
    if (v->merge.n_without)
        printf("\nLeft out: what %zu of them inherited at a fork (--inherited counts it)", v->merge.n_without);
}

/* A merged profile says of which time its in-use values are: "#in-use-at NS, the peak of 2 processes". */
static void print_merged_when(const struct dp_query *v)
{
    const struct dp_model *m = &v->merge.model;
    for (size_t i = 0; i < v->merge.header.comments.n; i++) {
        const char *text = dp_model_text(m, v->merge.header.comments.at[i]);
        char when[64], *end;
        if (strncmp(text, DP_COMMENT_IN_USE_AT, strlen(DP_COMMENT_IN_USE_AT)))
            continue;
        dp_query_at_text(when, sizeof when, strtoll(text + strlen(DP_COMMENT_IN_USE_AT), &end, 10));
        fputs(", in use at ", stdout);
        dp_query_print_name(stdout, !strncmp(end, ", ", 2) ? end + 2 : end, 0);
        printf("%s%s", *when ? ", " : "", when);
        return;
    }
    print_when(v);
}

static void print_line(const char *head, const char *text)
{
    fputs(head, stdout);
    dp_query_print_name(stdout, text, 0);
    putchar('\n');
}

void dp_summary_heading(const struct dp_query *v)
{
    bool is_state = dp_model_merge_is_state(&v->merge, v->type);
    print_programs(&v->programs);
    fputs("Type: ", stdout);
    dp_query_print_name(stdout, dp_query_type(v), 0);
    if (is_state && !v->moments.is_whole)
        print_processes(v);
    else if (is_state && v->paths.n == 1)
        print_merged_when(v);
    else if (v->paths.n == 1)
        print_when(v);
    else
        printf(", summed over %zu files", v->paths.n);
    if (v->is_fallback)
        fputs("; nothing is in use", stdout);
    putchar('\n');
    if (*v->paths.others)
        printf("There are other profiles too: --kind %s\n", v->paths.others);
    for (size_t i = 0; i < v->n_labels; i++)
        print_line("Only: ", v->labels[i]);
}

/* ---- nothing to show -------------------------------------------------------------------------------------------- */

/* Whether a row has a value of this type. */
static bool has_values(const struct dp_query *v, size_t type)
{
    size_t n_types = v->merge.model.types.n;
    for (uint32_t row = 0; row < v->merge.model.rows.n; row++)
        if (v->merge.values.at[row * n_types + type])
            return true;
    return false;
}

/* Another type of the profile with values: of a kind's types, the last that has any. NULL: none. */
static const char *other_type(const struct dp_query *v)
{
    const struct dp_model *m = &v->merge.model;
    for (unsigned kind = 0; kind < DP_KIND_DELTAS; kind++)
        for (size_t i = dp_kind_table[kind].n_values; i-- > 0;)
            for (size_t type = 0; type < m->types.n; type++)
                if (type != v->type &&
                    !strcmp(dp_model_text(m, m->types.at[type].type), dp_kind_table[kind].types[i].name) &&
                    has_values(v, type))
                    return dp_kind_table[kind].types[i].name;
    return NULL;
}

static bool has_any(const struct dp_query *v)
{
    for (uint32_t row = 0; row < v->merge.model.rows.n; row++)
        if (dp_query_value(v, row))
            return true;
    return false;
}

/* Why a profile of this type has no samples, and what would give it some. */
static const char *why_empty(const char *type)
{
    unsigned kind = dp_kind_by_type(type);
    return kind < DP_KINDS && dp_kind_table[kind].if_empty ? dp_kind_table[kind].if_empty : "no sample was recorded.";
}

void dp_summary_heading_empty(const struct dp_query *v, size_t n_rows)
{
    if (n_rows)
        return;
    const char *other = other_type(v);
    if (has_any(v)) {
        puts("No sample is left: --label, --focus, --ignore or --hide leave all of them out.");
        return;
    }
    bool is_state = dp_model_merge_is_state(&v->merge, v->type);
    fputs("Nothing: ", stdout);
    if (v->merge.model.rows.n == 0 || !other) {
        puts(why_empty(dp_query_type(v)));
        return;
    }
    fputs(is_state ? "nothing is in use at that time" : "no sample has any of this type", stdout);
    printf(".\nThere is %s: deltaprof %s --type %s ", other, v->verb, other);
    dp_query_print_argument(v->argument);
}

void dp_summary_heading_losses(const struct dp_query *v)
{
    dp_summary_heading_symbols(v);
    for (uint32_t i = 1; i < dp_strings_count(&v->losses); i++)
        print_line(i == 1 ? "Lost: " : "      ", dp_strings_at(&v->losses, i));
}
