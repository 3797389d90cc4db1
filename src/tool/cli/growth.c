/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/growth.c - `deltaprof growth`: shows by how much each stack grew.
 *
 * With two arguments, each is read as by `top`, and stacks are compared by the names of their functions, so that two
 * builds of a program can be compared. With one directory, the first and the last tick of each process are compared;
 * the ticks in between give the slope and its steadiness.
 */
#include "tool/cli/growth.h"

#include "tool/cli/cli.h"
#include "tool/cli/live.h"
#include "tool/summary/heading.h"
#include "tool/cli/options.h"
#include "tool/query/json.h"
#include "tool/query/print.h"
#include "tool/query/units.h"
#include "tool/leaks/slope.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 1024, STACK_SHOWN = 6, NAME_COLUMN = 12, NARROW_NAME_COLUMN = 2 };

static const char about[] =
    "Shows the stacks that have more (or, with a minus sign, less) than before, the largest change first.\n"
    "\n"
    "OLD and NEW are files or directories; each is read as top reads it. If one directory or more than two files\n"
    "are given, the memory in use in the last tick of each process is compared with its first tick. Processes that\n"
    "have ended count only if all have ended. Each stack then also has its growth per hour and its steadiness:\n"
    "100 % if it grew (or shrank) at every tick, 0 % if it went up and down. --type, --kind and --at need OLD NEW.\n"
    "\n"
    "  -n N              how many stacks (default 10; 0: all)\n"
    "  --depth N         how many functions of each stack (default 6; 0: all)\n"
    "  --by WHAT         stack (default) or process\n" DP_QUERY_HELP;

/* ---- two profiles ----------------------------------------------------------------------------------------------- */

static struct dp_cli_change *change_of(struct dp_cli_growth *g, uint32_t stack)
{
    while (g->changes.n <= stack) {
        struct dp_cli_change *fresh = dp_vec_push(&g->changes);
        if (!fresh)
            return NULL;
        *fresh = (struct dp_cli_change){.stack = (uint32_t)g->changes.n - 1};
    }
    return &g->changes.at[stack];
}

static int add_side(struct dp_cli_growth *g, struct dp_query *v, bool is_after)
{
    int64_t *total = is_after ? &g->after : &g->before;
    for (uint32_t row = 0; row < v->merge.model.rows.n; row++) {
        int64_t value = dp_query_value(v, row);
        int shown = value ? dp_query_row(v, row) : 0;
        if (shown < 0)
            return shown;
        if (!shown)
            continue;
        uint32_t stack = dp_query_stacks_add(&g->stacks, v, 0);
        struct dp_cli_change *change = stack == DP_STRINGS_NONE ? NULL : change_of(g, stack);
        if (!change)
            return -ENOMEM;
        dp_model_merge_sum(is_after ? &change->after : &change->before, value);
        dp_model_merge_sum(total, value);
    }
    return 0;
}

static int by_growth(const void *a, const void *b)
{
    const struct dp_cli_change *x = a, *y = b;
    double left = fabs((double)x->after - (double)x->before), right = fabs((double)y->after - (double)y->before);
    if (left != right)
        return left > right ? -1 : 1;
    if ((x->after > x->before) != (y->after > y->before))
        return x->after > x->before ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static void sort(struct dp_cli_growth *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->changes.n; i++)
        if (g->changes.at[i].before != g->changes.at[i].after)
            g->changes.at[n++] = g->changes.at[i];
    g->changes.n = n;
    if (n)
        qsort(g->changes.at, n, sizeof *g->changes.at, by_growth);
}

int dp_cli_growth_pair(struct dp_cli_growth *g, struct dp_query *old, struct dp_query *new, char **paths)
{
    int status = dp_query_read(old, &paths[0], 1);
    if (!status)
        status = dp_query_read(new, &paths[1], 1);
    if (status)
        return status;
    if (strcmp(dp_query_type(old), dp_query_type(new)) || strcmp(dp_query_unit(old), dp_query_unit(new))) {
        dp_query_print_error(new->verb, "%s has %s, %s has %s: --type chooses one", paths[0], dp_query_type(old),
                             paths[1], dp_query_type(new));
        return DP_EXIT_FAILED;
    }
    if (add_side(g, old, false) || add_side(g, new, true)) {
        dp_query_print_error(new->verb, "out of memory");
        return DP_EXIT_FAILED;
    }
    sort(g);
    return 0;
}

void dp_cli_growth_fini(struct dp_cli_growth *g)
{
    dp_query_stacks_fini(&g->stacks);
    dp_vec_fini(&g->changes);
}

/* ---- the ticks of a directory ----------------------------------------------------------------------------------- */

/* Whether a process counts: it has not ended, or all have ended. */
static bool counts(const struct dp_leaks_series *s, uint32_t process)
{
    bool all_ended = true;
    for (size_t i = 0; i < s->processes.n; i++)
        all_ended &= s->processes.at[i].ended;
    return s->processes.at[process].n_points > 0 && (all_ended || !s->processes.at[process].ended);
}

static int take_curves(struct dp_cli_growth *g, const struct dp_leaks_series *s)
{
    for (size_t i = 0; i < s->curves.n; i++) {
        const struct dp_leaks_curve *curve = &s->curves.at[i];
        const struct dp_leaks_process *process = &s->processes.at[curve->process];
        if (!counts(s, curve->process))
            continue;
        struct dp_cli_change *change = change_of(g, curve->stack);
        if (!change)
            return -ENOMEM;
        size_t n = process->n_points;
        struct dp_leaks_slope slope = dp_leaks_slope_of(process->times_ns, curve->bytes, 0, n);
        double growth = fabs(curve->bytes[n - 1] - curve->bytes[0]);
        int64_t first = (int64_t)curve->bytes[0], last = (int64_t)curve->bytes[n - 1];
        dp_model_merge_sum(&change->before, first);
        dp_model_merge_sum(&change->after, last);
        dp_model_merge_sum(&g->before, first);
        dp_model_merge_sum(&g->after, last);
        change->per_hour += slope.per_hour;
        change->steadiness += slope.steadiness * growth;
        change->weight += growth;
    }
    for (size_t i = 0; i < g->changes.n; i++) {
        struct dp_cli_change *change = &g->changes.at[i];
        change->steadiness = change->weight > 0 ? fabs(change->steadiness / change->weight) : 0;
    }
    return 0;
}

static int read_series(struct dp_cli_growth *g, struct dp_query *v, char **paths, size_t n_paths)
{
    struct dp_leaks_series series = {.view = v};
    if (v->at_text) {
        dp_query_print_error(v->verb, "--at needs two arguments, OLD NEW; of a directory all ticks are compared");
        return DP_EXIT_USAGE;
    }
    if ((v->type_name && strcmp(v->type_name, "inuse_space")) || (v->kind && strcmp(v->kind, "heap"))) {
        dp_query_print_error(
            v->verb,
            "--type and --kind need two arguments, OLD NEW; a directory is compared by inuse_space of heap profiles");
        return DP_EXIT_USAGE;
    }
    v->argument = paths[0];
    int status = dp_query_paths_add_all(&v->paths, v->verb, paths, n_paths);
    if (!status)
        status = dp_query_paths_choose(&v->paths, v->verb, v->kind, "inuse_space");
    if (!status)
        status = dp_leaks_series_read(&series);
    if (!status && take_curves(g, &series)) {
        dp_query_print_error(v->verb, "out of memory");
        status = DP_EXIT_FAILED;
    }
    dp_strings_fini(&g->stacks.keys);
    dp_vec_fini(&g->stacks.key);
    g->stacks = series.stacks;
    series.stacks = (struct dp_query_stacks){.key = {0}};
    g->is_series = true;
    for (size_t i = 0; i < series.processes.n; i++) {
        const struct dp_leaks_process *process = &series.processes.at[i];
        if (!counts(&series, (uint32_t)i))
            continue;
        g->n_processes++;
        g->n_points = process->n_points > g->n_points ? process->n_points : g->n_points;
        int64_t lived_ns = process->times_ns[process->n_points - 1] - process->start_ns;
        g->longest_ns = lived_ns > g->longest_ns ? lived_ns : g->longest_ns;
        int64_t duration_ns = process->times_ns[process->n_points - 1] - process->times_ns[0];
        g->duration_ns = duration_ns > g->duration_ns ? duration_ns : g->duration_ns;
    }
    g->n_files = v->paths.n;
    dp_leaks_series_fini(&series);
    sort(g);
    return status;
}

/* ---- output ----------------------------------------------------------------------------------------------------- */

static void print_json(const struct dp_cli_growth *g, const char *unit, size_t n_wanted)
{
    char name[NAME_BYTES];
    size_t n = n_wanted && n_wanted < g->changes.n ? n_wanted : g->changes.n;
    dp_query_print_json_text("{", "unit", unit);
    dp_query_print_json_number(",", "total", g->after - g->before);
    dp_query_print_json_number(",", "before", g->before);
    dp_query_print_json_number(",", "after", g->after);
    fputs(",\"rows\":[", stdout);
    for (size_t i = 0; i < n; i++) {
        const struct dp_cli_change *change = &g->changes.at[i];
        const char *at = NULL;
        dp_query_stacks_next(&g->stacks, change->stack, &at, name, sizeof name);
        dp_query_print_json_text(i ? ",\n{" : "\n{", "name", name);
        dp_query_print_json_number(",", "before", change->before);
        dp_query_print_json_number(",", "after", change->after);
        dp_query_print_json_number(",", "growth", change->after - change->before);
        if (g->is_series) {
            dp_query_print_json_fraction(",", "per_hour", change->per_hour);
            dp_query_print_json_fraction(",", "steadiness", change->steadiness);
        }
        fputs(",\"stack\":[", stdout);
        const char *separator = "";
        for (at = NULL; dp_query_stacks_next(&g->stacks, change->stack, &at, name, sizeof name); separator = ",") {
            fputs(separator, stdout);
            dp_query_print_json_string(name);
        }
        fputs("]}", stdout);
    }
    puts("]}");
}

/* "+1.50MB", "-12kB" */
static void signed_text(char *to, size_t n_bytes, double value, const char *unit)
{
    to[0] = value > 0 ? '+' : '\0';
    dp_query_print_unit(to + (value > 0), n_bytes - 1, (int64_t)value, unit);
}

void dp_cli_growth_print(const struct dp_cli_growth *g, const char *unit, size_t n_wanted, size_t n_frames)
{
    char name[NAME_BYTES], growth[40], before[32], after[32];
    size_t n = n_wanted && n_wanted < g->changes.n ? n_wanted : g->changes.n, n_columns = dp_query_print_columns();
    bool is_narrow = n_columns && n_columns < 64;
    int indent = is_narrow ? NARROW_NAME_COLUMN : NAME_COLUMN;
    for (size_t i = 0; i < n; i++) {
        const struct dp_cli_change *change = &g->changes.at[i];
        signed_text(growth, sizeof growth, (double)change->after - (double)change->before, unit);
        dp_query_print_unit(before, sizeof before, change->before, unit);
        dp_query_print_unit(after, sizeof after, change->after, unit);
        printf("%s%10s%s  %s -> %s",
               dp_query_print_colour(change->after > change->before ? DP_COLOUR_BAD : DP_COLOUR_GOOD), growth,
               dp_query_print_colour(DP_COLOUR_NONE), before, after);
        if (g->is_series && g->n_points > 2) {
            signed_text(growth, sizeof growth, change->per_hour, unit);
            printf("%s%s an hour, %.0f%% steady", is_narrow ? "\n  " : ", ", growth, 100 * change->steadiness);
        }
        putchar('\n');
        const char *at = NULL;
        size_t depth = 0, n_more = 0;
        while (dp_query_stacks_next(&g->stacks, change->stack, &at, name, sizeof name)) {
            if (n_frames && depth++ >= n_frames) {
                n_more++;
                continue;
            }
            printf("%*s", indent, "");
            dp_query_print_name(stdout, name, dp_query_print_room(n_columns, (size_t)indent));
            putchar('\n');
        }
        if (n_more)
            printf("%*s(%zu more)\n", indent, "", n_more);
    }
    if (n < g->changes.n)
        printf("%zu more stacks changed (-n 0 shows all)\n", g->changes.n - n);
}

static void print_heading(const struct dp_cli_growth *g, const struct dp_query *v, const char *type, const char *unit,
                          char **paths)
{
    char total[40], before[32], after[32], duration[32];
    if (g->is_series) {
        const char *plural = g->n_files == 1 ? "" : "s";
        dp_query_print_unit(duration, sizeof duration, g->duration_ns, "nanoseconds");
        if (g->n_points < 2)
            printf("In use (%s): %zu file%s, nothing to compare\n", type, g->n_files, plural);
        else
            printf("In use (%s), last tick against first: %zu process%s, %zu file%s, %s\n", type, g->n_processes,
                   g->n_processes == 1 ? "" : "es", g->n_files, plural, duration);
    } else {
        fputs("From ", stdout);
        dp_query_print_name(stdout, paths[0], 0);
        fputs(" to ", stdout);
        dp_query_print_name(stdout, paths[1], 0);
        printf(" (%s)\n", type);
    }
    if (*v->paths.others)
        printf("There are other profiles too: --kind %s\n", v->paths.others);
    if (g->is_series && g->n_points < 2)
        return;
    signed_text(total, sizeof total, (double)g->after - (double)g->before, unit);
    dp_query_print_unit(before, sizeof before, g->before, unit);
    dp_query_print_unit(after, sizeof after, g->after, unit);
    printf("%10s  %s -> %s in all\n\n", total, before, after);
}

static void print_top_hint(const struct dp_query *v)
{
    fputs("What is there: deltaprof top ", stdout);
    dp_query_print_argument(v->argument);
}

static void print_empty(const struct dp_cli_growth *g, const struct dp_query *v)
{
    if (g->changes.n)
        return;
    if (g->is_series && g->n_points < 2) {
        printf("No process has two ticks. A shorter interval makes more:\n"
               "deltaprof run -o interval=%s -- COMMAND\n",
               dp_summary_interval(g->longest_ns));
        print_top_hint(v);
    } else if (dp_query_filters(v)) {
        puts("No stack changed of those that --label, --focus, --ignore or --hide leave.");
    } else {
        fputs("No stack changed. ", stdout);
        print_top_hint(v);
    }
}

/* ---- the verb --------------------------------------------------------------------------------------------------- */

static int parse_by(struct dp_query *v, const char *text)
{
    v->shows_processes = v->tells_process = !strcmp(text, "process");
    if (v->shows_processes || !strcmp(text, "stack"))
        return 0;
    dp_query_print_error("growth", "--by %s: stack or process", text);
    return DP_EXIT_USAGE;
}

static int show(struct dp_query *old, struct dp_query *new, char **paths, size_t n_paths, size_t n_wanted,
                size_t n_frames)
{
    struct dp_cli_growth g = {.n_files = 0};
    bool is_pair = n_paths == 2;
    int status = is_pair ? dp_cli_growth_pair(&g, old, new, paths) : read_series(&g, new, paths, n_paths);
    const char *unit = is_pair && !status ? dp_query_unit(new) : "bytes";
    const char *type = is_pair && !status ? dp_query_type(new) : "inuse_space";
    if (!status && new->json) {
        print_json(&g, unit, n_wanted);
    } else if (!status) {
        print_heading(&g, new, type, unit, paths);
        dp_cli_growth_print(&g, unit, n_wanted, n_frames);
        print_empty(&g, new);
    }
    dp_cli_growth_fini(&g);
    return status ? status : dp_query_print_flush(new->verb);
}

int dp_cli_growth(int argc, char **argv)
{
    static const struct option options[] = {
        {"depth", required_argument, NULL, 'd'}, {"by", required_argument, NULL, 'b'}, DP_QUERY_OPTIONS};
    struct dp_query old, new;
    size_t n_wanted = 10, n_frames = STACK_SHOWN;
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_query_files_init();
    int status = dp_query_init(&new, "growth", argc);
    for (int option; !status && (option = getopt_long(argc, argv, ":n:", options, NULL)) != -1;) {
        if (option == 'n')
            status = dp_cli_options_count("growth", "-n", &n_wanted);
        else if (option == 'd')
            status = dp_cli_options_count("growth", "--depth", &n_frames);
        else if (option == 'b')
            status = parse_by(&new, optarg);
        else
            status = dp_query_option(&new, argv, option);
    }
    if (!status && optind == argc) {
        dp_query_print_error("growth", "nothing to compare: deltaprof growth OLD NEW, or growth DIR");
        status = DP_EXIT_USAGE;
    }
    if (!status)
        status = dp_cli_live_begin("growth", argv + optind, argc - optind);
    dp_query_same(&old, &new);
    if (!status)
        status = show(&old, &new, argv + optind, (size_t)(argc - optind), n_wanted, n_frames);
    dp_query_same_fini(&old);
    dp_query_fini(&new);
    return status;
}
