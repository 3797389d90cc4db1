/* SPDX-License-Identifier: MIT */
/* tool/cli/top.c - `deltaprof top`: lists the functions with the largest values. */
#include "tool/cli/cli.h"
#include "tool/cli/live.h"
#include "tool/summary/heading.h"
#include "tool/cli/options.h"
#include "tool/query/json.h"
#include "tool/query/print.h"
#include "tool/query/units.h"
#include "tool/query/count.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A narrow terminal has fewer columns: the table has all of them if that leaves enough for names, else the value and
 * its share of the total and the value of all that was called, else only the value by which it is sorted.
 */
enum layout { ALL, SOME, ONE };
enum { LARGE = 20, MEDIUM = 5 }; /* percent, for colours */
enum { ALL_WIDTH = 44, SOME_WIDTH = 30, ONE_WIDTH = 12, NAME_LEAST = 20, NAME_LITTLE = 14 };

static const char about[] =
    "Shows the functions with the largest values. A PATH is a pprof file of any producer, raw or gzipped (- is\n"
    "standard input), a directory of profiles, or a glob.\n"
    "\n"
    "Types that count the events of a window (alloc_*, contentions, delay and all others) are summed over all\n"
    "files. Memory in use (inuse_*) is that of now, summed over the processes that have not ended. If all have ended,\n"
    "it is that of the time when they together had most in use; the line `Type:` says which, and what was left at the\n"
    "end. If nothing was in use, alloc_space is shown. The name PROGRAM.PID.SEQ.KIND.pb.gz tells the process of a\n"
    "file. Files with other names are grouped by program and ordered by time. A file counts once, however many PATHs\n"
    "name it.\n"
    "\n"
    "Lines and inlined functions are read from the program's own files, if this machine has them with the same\n"
    "build-id and with debug information. On a terminal, the middle of long names is left out, and a narrow one has\n"
    "fewer columns.\n"
    "\n"
    "  -n N              how many functions (default 20; 0: all)\n"
    "  --cum             sort by the value of a function and of all that it called\n"
    "  --by WHAT         function (default), line, file, library, process, or label:KEY\n"
    "  --columns LIST    more columns: sample types; and, for programs with age=on, lifetime (how long the blocks\n"
    "                    lived on average) and temporary (the share of blocks that lived less than 1 ms). They have\n"
    "                    the function's own values; with --cum, also the values of all that it called\n" DP_QUERY_HELP;

/*
 * A column is a sample type, or the quotient of two: both lie in the count's columns.
 */
struct column {
    const char *name, *unit;
    size_t above, below; /* in the count's columns; below NO_TYPE: no quotient */
};
enum { SHOWN_MAX = 8, NO_TYPE = -1, COLUMN_WIDTH = 12 };

struct table {
    struct dp_query_count count;
    const char *wanted; /* the columns as they were asked for; NULL: none */
    struct column columns[SHOWN_MAX];
    size_t n_columns;
    char names[256];
    enum layout layout;
    size_t n_columns_name; /* of a name; 0: any */
};

/* The count's column of a sample type. False: the profiles have none, or there are too many. */
static bool add_type(struct dp_query_count *c, const char *name, size_t *column)
{
    const struct dp_model *m = &c->view->merge.model;
    size_t type = dp_model_type_named(m, name);
    if (type == m->types.n)
        return false;
    *column = c->n_columns;
    c->columns[c->n_columns++] = type;
    return true;
}

static int add_column(struct table *t, const char *name)
{
    if (t->n_columns == SHOWN_MAX) {
        dp_query_print_error("top", "--columns %s: more than %d", t->wanted, SHOWN_MAX);
        return DP_EXIT_USAGE;
    }
    struct column *column = &t->columns[t->n_columns];
    bool is_share = !strcmp(name, "temporary"), is_mean = !strcmp(name, "lifetime");
    bool found = add_type(&t->count, is_share ? "temporary_objects" : name, &column->above);
    column->name = name;
    column->below = (size_t)NO_TYPE;
    if (found && (is_share || is_mean))
        found = add_type(&t->count, "freed_objects", &column->below);
    if (!found) {
        dp_query_print_error("top", "--columns %s: %s", name,
                             is_share || is_mean ? "no profile has lifetimes; the program needs age=on"
                                                 : "no profile has this sample type");
        return DP_EXIT_FAILED;
    }
    const struct dp_model *m = &t->count.view->merge.model;
    column->unit = dp_model_text(m, m->types.at[t->count.columns[column->above]].unit);
    t->n_columns++;
    return 0;
}

static int add_columns(struct table *t)
{
    char *rest = t->names, *name;
    int status = 0;
    snprintf(t->names, sizeof t->names, "%s", t->wanted ? t->wanted : "");
    while (t->wanted && !status && (name = strsep(&rest, ","))) {
        if (*name) {
            status = add_column(t, name);
            continue;
        }
        dp_query_print_error("top", "--columns %s: a name is empty", t->wanted);
        status = DP_EXIT_USAGE;
    }
    return status;
}

/* The column's value of a node; a share is in thousandths. False: nothing to divide by. */
static bool column_of(const struct table *t, const struct dp_query_node *node, const struct column *column,
                      double *value)
{
    *value = (double)dp_query_count_column(&t->count, node, column->above);
    if (column->below == (size_t)NO_TYPE)
        return true;
    double below = (double)dp_query_count_column(&t->count, node, column->below);
    *value = below > 0 ? *value / below : 0;
    return below > 0;
}

static void print_columns(const struct table *t, const struct dp_query_node *node)
{
    for (size_t i = 0; i < t->n_columns; i++) {
        const struct column *column = &t->columns[i];
        char text[32] = "-";
        double value;
        if (!node)
            snprintf(text, sizeof text, "%.16s", column->name);
        else if (column_of(t, node, column, &value) && !strcmp(column->name, "temporary"))
            snprintf(text, sizeof text, "%.1f%%", 100 * value);
        else if (column_of(t, node, column, &value) && !strcmp(column->unit, "microseconds"))
            dp_query_print_unit(text, sizeof text, (int64_t)(1000 * value), "nanoseconds");
        else if (column_of(t, node, column, &value))
            dp_query_print_unit(text, sizeof text, (int64_t)value, column->unit);
        printf(" %*s", strlen(column->name) < COLUMN_WIDTH ? COLUMN_WIDTH : (int)strlen(column->name), text);
    }
}

static void print_json_columns(const struct table *t, const struct dp_query_node *node)
{
    for (size_t i = 0; i < t->n_columns; i++) {
        const struct column *column = &t->columns[i];
        double value;
        bool known = column_of(t, node, column, &value);
        if (known && !strcmp(column->name, "temporary"))
            dp_query_print_json_fraction(",", column->name, value);
        else if (known && !strcmp(column->unit, "microseconds"))
            dp_query_print_json_number(",", column->name, (int64_t)(1000 * value));
        else if (known)
            dp_query_print_json_number(",", column->name, (int64_t)value);
    }
}

/* On a terminal, a line has the name of its file without the directory. */
static void print_name(const struct table *t, const char *name, size_t n_columns)
{
    const char *blank = strrchr(name, ' '), *slash = strrchr(name, '/');
    if (!n_columns || t->count.by != DP_QUERY_BY_LINE || !blank || slash < blank) {
        dp_query_print_name(stdout, name, n_columns);
        return;
    }
    size_t n_left = dp_query_print_room(n_columns, strlen(slash + 1) + 1);
    char *function = strndup(name, (size_t)(blank - name));
    dp_query_print_name(stdout, function ? function : "", n_left);
    putchar(' ');
    dp_query_print_name(stdout, slash + 1, n_columns > n_left + 4 ? n_columns - n_left - 1 : 3);
    free(function);
}

/* How much of a line of the terminal the columns take in which --columns puts something. */
static size_t width_of_columns(const struct table *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_columns; i++)
        n += 1 + (strlen(t->columns[i].name) < COLUMN_WIDTH ? COLUMN_WIDTH : strlen(t->columns[i].name));
    return n;
}

static void choose_layout(struct table *t)
{
    size_t n_columns = dp_query_print_columns(), more = width_of_columns(t);
    bool all = !n_columns || n_columns >= ALL_WIDTH + more + NAME_LEAST;
    bool some = all || n_columns >= SOME_WIDTH + more + NAME_LITTLE;
    t->layout = all ? ALL : some ? SOME : ONE;
    t->n_columns_name = dp_query_print_room(n_columns, more + (all ? ALL_WIDTH : some ? SOME_WIDTH : ONE_WIDTH));
}

static void print_heading(const struct table *t)
{
    fputs(dp_query_print_colour(DP_COLOUR_HEAD), stdout);
    if (t->layout == ALL)
        printf("%10s %6s %6s %10s %6s", "flat", "flat%", "sum%", "cum", "cum%");
    else if (t->layout == SOME)
        printf("%10s %6s %10s", "flat", "flat%", "cum");
    else
        printf("%10s", t->count.by_cum ? "cum" : "flat");
    print_columns(t, NULL);
    printf("  name%s\n", dp_query_print_colour(DP_COLOUR_NONE));
}

/* The functions that have most stand out; those that have nothing of their own recede. */
static enum dp_query_colour colour_of(const struct dp_query_count *c, const struct dp_query_node *node)
{
    double percent = dp_summary_percent(c->by_cum ? node->cum : node->flat, c->weight);
    return percent >= LARGE    ? DP_COLOUR_BAD
           : percent >= MEDIUM ? DP_COLOUR_WARN
           : node->flat        ? DP_COLOUR_NONE
                               : DP_COLOUR_LESS;
}

static void print_row(const struct table *t, const struct dp_query_node *node, int64_t sum)
{
    const struct dp_query_count *c = &t->count;
    char flat[32], cum[32];
    dp_query_print_unit(flat, sizeof flat, node->flat, dp_query_unit(c->view));
    dp_query_print_unit(cum, sizeof cum, node->cum, dp_query_unit(c->view));
    enum dp_query_colour colour = colour_of(c, node);
    fputs(colour ? dp_query_print_colour(colour) : "", stdout);
    if (t->layout == ALL)
        printf("%10s %5.1f%% %5.1f%% %10s %5.1f%%", flat, dp_summary_percent(node->flat, c->weight),
               dp_summary_percent(sum, c->weight), cum, dp_summary_percent(node->cum, c->weight));
    else if (t->layout == SOME)
        printf("%10s %5.1f%% %10s", flat, dp_summary_percent(node->flat, c->weight), cum);
    else
        printf("%10s", c->by_cum ? cum : flat);
    print_columns(t, node);
    fputs("  ", stdout);
    print_name(t, dp_strings_at(&c->names, node->name), t->n_columns_name);
    puts(colour ? dp_query_print_colour(DP_COLOUR_NONE) : "");
}

static void print_table(struct table *t, size_t n_wanted)
{
    const struct dp_query_count *c = &t->count;
    static const char *const things[][2] = {
        {"function", "functions"}, {"line", "lines"}, {"file", "files"}, {"library", "libraries"}, {"label", "labels"}};
    static const char *const processes[2] = {"process", "processes"};
    const char *unit = dp_query_unit(c->view);
    size_t n = c->nodes.n, n_shown = n_wanted && n_wanted < n ? n_wanted : n;
    int64_t shown = 0, sum = 0;
    for (size_t i = 0; i < n_shown; i++)
        dp_model_merge_sum(&shown, c->nodes.at[i].flat);

    char flat[32], cum[32];
    dp_query_print_unit(flat, sizeof flat, shown, unit);
    dp_query_print_unit(cum, sizeof cum, c->total, unit);
    printf("Showing %zu of %zu %s: %s of %s (%.1f%%)\n", n_shown, n,
           (c->by == DP_QUERY_BY_LABEL && c->view->tells_process ? processes : things[c->by])[n != 1], flat, cum,
           dp_summary_percent(shown, c->weight));
    choose_layout(t);
    print_heading(t);
    for (size_t i = 0; i < n_shown; i++) {
        dp_model_merge_sum(&sum, c->nodes.at[i].flat);
        print_row(t, &c->nodes.at[i], sum);
    }
}

static void print_json(const struct table *t, size_t n_wanted)
{
    const struct dp_query_count *c = &t->count;
    size_t n_shown = n_wanted && n_wanted < c->nodes.n ? n_wanted : c->nodes.n;
    dp_query_print_json_text("{", "type", dp_query_type(c->view));
    dp_query_print_json_text(",", "unit", dp_query_unit(c->view));
    dp_query_print_json_number(",", "total", c->total);
    fputs(",\"rows\":[", stdout);
    for (size_t i = 0; i < n_shown; i++) {
        const struct dp_query_node *node = &c->nodes.at[i];
        dp_query_print_json_text(i ? ",\n{" : "\n{", "name", dp_strings_at(&c->names, node->name));
        dp_query_print_json_number(",", "flat", node->flat);
        dp_query_print_json_number(",", "cum", node->cum);
        print_json_columns(t, node);
        putchar('}');
    }
    puts("]}");
}

static int show(struct table *t, char **paths, size_t n, size_t n_wanted)
{
    struct dp_query_count *c = &t->count;
    struct dp_query *v = c->view;
    int status = dp_query_read(v, paths, n);
    if (!status && c->by == DP_QUERY_BY_LABEL)
        status = dp_query_check_key(v, c->key);
    if (!status)
        status = add_columns(t);
    if (status)
        return status;
    if (dp_query_count_rows(c)) {
        dp_query_print_error("top", "out of memory");
        return DP_EXIT_FAILED;
    }
    dp_query_count_sort(c);
    if (v->json) {
        print_json(t, n_wanted);
    } else {
        dp_summary_heading(v);
        print_table(t, n_wanted);
        dp_summary_heading_empty(v, c->n_rows);
        dp_summary_heading_losses(v);
    }
    return dp_query_print_flush(v->verb);
}

static int parse_by(struct dp_query_count *c, const char *text)
{
    if (!strcmp(text, "process"))
        text = "label:" DP_QUERY_PROCESS;
    static const char *const words[] = {"function", "line", "file", "library"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(text, words[i])) {
            c->by = (enum dp_query_by)i;
            return 0;
        }
    if (!strncmp(text, "label:", 6) && text[6]) {
        c->by = DP_QUERY_BY_LABEL;
        c->key = text + 6;
        c->view->tells_process |= !strcmp(c->key, DP_QUERY_PROCESS);
        return 0;
    }
    dp_query_print_error("top", "--by %s: function, line, file, library, process or label:KEY", text);
    return DP_EXIT_USAGE;
}

int dp_cli_top(int argc, char **argv)
{
    static const struct option options[] = {{"cum", no_argument, NULL, 'c'},
                                            {"by", required_argument, NULL, 'b'},
                                            {"columns", required_argument, NULL, 'C'},
                                            DP_QUERY_OPTIONS};
    struct dp_query view;
    struct table table = {.count = {.view = &view}};
    struct dp_query_count *count = &table.count;
    size_t n_wanted = 20;
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_query_files_init();
    int status = dp_query_init(&view, "top", argc);
    view.falls_back = true;
    for (int option; !status && (option = getopt_long(argc, argv, ":n:", options, NULL)) != -1;) {
        if (option == 'n')
            status = dp_cli_options_count("top", "-n", &n_wanted);
        else if (option == 'c')
            count->by_cum = true;
        else if (option == 'b')
            status = parse_by(count, optarg);
        else if (option == 'C')
            table.wanted = optarg;
        else
            status = dp_query_option(&view, argv, option);
    }
    if (!status && optind == argc) {
        dp_query_print_error("top", "no file given: deltaprof top [OPTION]... PATH...");
        status = DP_EXIT_USAGE;
    }
    if (!status)
        status = dp_cli_live_begin("top", argv + optind, argc - optind);
    if (!status)
        status = show(&table, argv + optind, (size_t)(argc - optind), n_wanted);
    dp_query_count_fini(count);
    dp_query_fini(&view);
    return status;
}
