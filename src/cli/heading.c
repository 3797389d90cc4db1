/* SPDX-License-Identifier: MIT */
/* cli/heading.c - prints the lines above and below a table, so that a reader knows what its numbers mean. */
#include "cli/heading.h"

#include "print/units.h"
#include "profile/kinds.h"
#include "query/at.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MANY_PROGRAMS 8 /* are not all named */

const char *dp_cli_interval(int64_t duration_ns)
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

double dp_cli_percent(int64_t part, int64_t whole)
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
        dp_print_unit(text, sizeof text, header->duration_ns, "nanoseconds");
        printf(", %s", text);
    }
}

static void print_programs(const struct dp_strings *programs)
{
    size_t n = dp_strings_count(programs), n_named = n <= MANY_PROGRAMS + 1 ? n : MANY_PROGRAMS; /* 0 is "" */
    for (uint32_t i = 1; i < n_named; i++) {
        fputs(i > 1 ? ", " : n == 2 ? "Program: " : "Programs: ", stdout);
        dp_print_name(stdout, dp_strings_at(programs, i), 0);
    }
    if (n > n_named)
        printf(" and %zu more", n - n_named);
    if (n)
        putchar('\n');
}

/* Whether other files have the time when most was in use; at the end there may be little. */
static bool is_past_peak(const struct dp_query *v)
{
    const struct dp_merge *merge = &v->merge;
    return v->at == DP_QUERY_AT_NEWEST && merge->n_ended == merge->processes.n && v->paths.n > merge->processes.n;
}

/* Prints from which files the in-use values come. */
static void print_processes(const struct dp_query *v)
{
    const struct dp_merge *merge = &v->merge;
    size_t n_files = v->paths.n;
    bool all_ended = merge->n_ended == merge->processes.n, is_one = merge->processes.n == 1;
    const char *gap = dp_print_columns() ? "\n      " : " "; /* on a terminal the line would be too long */
    const char *plural = n_files == 1 ? "" : "s";
    printf(", in use by %zu process%s", merge->n_counted, merge->n_counted == 1 ? "" : "es");
    if (v->at == DP_QUERY_AT_LAST) {
        printf("%sin the newest file%s", gap, is_one ? "" : " of each");
        print_when(v);
    } else if (v->at_text) {
        printf("%sat %s", gap, v->at_text);
        print_when(v);
    } else if (is_one && (all_ended || !merge->n_ended))
        printf("%s%sfrom its %s (of %zu file%s)", all_ended ? ", which has ended:" : ",", gap,
               all_ended ? "last file before the end" : "newest file", n_files, plural);
    else if (all_ended)
        printf(", all ended:%sfrom the last file before the end of each (of %zu file%s)", gap, n_files, plural);
    else if (merge->n_ended)
        printf(",%sfrom the newest file of each (of %zu file%s; %zu process%s ended)", gap, n_files, plural,
               merge->n_ended, merge->n_ended == 1 ? "" : "es");
    else
        printf(",%sfrom the newest file of each (of %zu file%s)", gap, n_files, plural);
    if (merge->n_without)
        printf("\nLeft out: what %zu of them inherited at a fork (--inherited counts it)", merge->n_without);
}

static void print_peak_hint(const struct dp_query *v)
{
    printf("When the most memory was in use: deltaprof %s --at peak ", v->verb);
    dp_print_argument(v->argument);
}

static void print_line(const char *head, const char *text)
{
    fputs(head, stdout);
    dp_print_name(stdout, text, 0);
    putchar('\n');
}

void dp_cli_heading(const struct dp_query *v)
{
    print_programs(&v->programs);
    fputs("Type: ", stdout);
    dp_print_name(stdout, dp_query_type(v), 0);
    if (dp_merge_is_state(&v->merge, v->type) && (v->paths.n > 1 || v->at_text))
        print_processes(v);
    else if (v->paths.n == 1)
        print_when(v);
    else
        printf(", summed over %zu files", v->paths.n);
    putchar('\n');
    if (dp_merge_is_state(&v->merge, v->type) && is_past_peak(v))
        print_peak_hint(v);
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

void dp_cli_heading_empty(const struct dp_query *v, size_t n_rows)
{
    if (n_rows)
        return;
    const char *other = other_type(v);
    if (has_any(v)) {
        puts("No sample is left: --label, --focus, --ignore or --hide leave all of them out.");
        return;
    }
    bool is_state = dp_merge_is_state(&v->merge, v->type);
    fputs("Nothing: ", stdout);
    if (v->merge.model.rows.n == 0 || !other) {
        puts("no sample was recorded. A program that allocates little is seen with a smaller\n"
             "heap_rate: deltaprof run -o heap_rate=1k -- COMMAND");
        return;
    }
    if (is_state && v->merge.n_ended && v->merge.n_ended == v->merge.processes.n)
        fputs("nothing is in use in the newest file, which was written at exit", stdout);
    else if (is_state)
        fputs("nothing is in use in the newest file", stdout);
    else
        fputs("no sample has any of this type", stdout);
    printf(".\nThere is %s: deltaprof %s --type %s ", other, v->verb, other);
    dp_print_argument(v->argument);
    if (is_state && v->paths.n > 1 && !is_past_peak(v))
        print_peak_hint(v);
}

void dp_cli_heading_losses(const struct dp_query *v)
{
    for (uint32_t i = 1; i < dp_strings_count(&v->losses); i++)
        print_line(i == 1 ? "Lost: " : "      ", dp_strings_at(&v->losses, i));
}
