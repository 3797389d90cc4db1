/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/churn.c - `deltaprof churn`: allocations that a change of the program could save: temporary blocks, blocks
 * that realloc moves, containers that grow step by step.
 */
#include "tool/cli/cli.h"
#include "tool/cli/live.h"
#include "tool/cli/options.h"
#include "tool/summary/heading.h"
#include "tool/query/count.h"
#include "tool/query/json.h"
#include "tool/query/print.h"
#include "tool/query/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char about[] =
    "Shows the functions whose allocations a change could save, those first where it saves most. The profiles must be\n"
    "written with age=on. PATH is a directory, a file, a glob, or the PID of a living process.\n"
    "\n"
    "  temporary   blocks that lived less than a millisecond: could be on the stack, or kept and used again\n"
    "  moved       bytes that realloc copied to another place: a larger first size saves the copies\n"
    "  outgrown    bytes of blocks that were freed when the same code had just allocated a larger one, by a quarter "
    "at\n"
    "              least: a container that grows. Reserving its size saves these. With heap_rate=1 all are seen, else\n"
    "              those where both blocks were sampled: a lower bound\n"
    "  saves       an estimate of the CPU time: 40 ns for a temporary block, 1 ns for 10 bytes that were copied\n"
    "\n"
    "  -n N              how many functions (default 20; 0: all)\n"
    "  --json            one JSON object; sizes are bytes, times ns\n" DP_QUERY_HELP_LABEL DP_QUERY_HELP_STACKS;

enum { NS_OF_PAIR = 40, BYTES_OF_NS = 10 };

/* The count's columns, in this order. */
enum { FREED, TEMPORARY, TEMPORARY_BYTES, MOVED, MOVED_BYTES, OUTGROWN, OUTGROWN_BYTES, N_COLUMNS };
static const char *const types[N_COLUMNS] = {"freed_objects", "temporary_objects", "temporary_space", "moved_objects",
                                             "moved_space",   "outgrown_objects",  "outgrown_space"};
static const char *const json_names[N_COLUMNS] = {"freed",       "temporary", "temporary_bytes", "moved",
                                                  "moved_bytes", "outgrown",  "outgrown_bytes"};

static int64_t column_of(const struct dp_query_count *c, const struct dp_query_node *node, size_t i)
{
    return dp_query_count_column(c, node, i);
}

static int64_t saved_ns(const struct dp_query_count *c, const struct dp_query_node *node)
{
    int64_t copied = column_of(c, node, MOVED_BYTES) + column_of(c, node, OUTGROWN_BYTES);
    return column_of(c, node, TEMPORARY) * NS_OF_PAIR + copied / BYTES_OF_NS;
}

static int by_saving(const void *a, const void *b, void *count)
{
    int64_t x = saved_ns(count, a), y = saved_ns(count, b);
    return (x < y) - (x > y);
}

/* 0, or a status after one line. */
static int choose_columns(struct dp_query_count *c)
{
    dp_query_count_choose(c, types, N_COLUMNS);
    if (c->n_columns == N_COLUMNS)
        return 0;
    dp_query_print_error("churn", "%s: no profile has lifetimes; the program needs age=on",
                         dp_query_print_word_of(c->view->argument));
    return DP_EXIT_FAILED;
}

/* Functions that a change would save nothing. */
static void drop_others(struct dp_query_count *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->nodes.n; i++)
        if (saved_ns(c, &c->nodes.at[i]) > 0)
            c->nodes.at[n++] = c->nodes.at[i];
    c->nodes.n = n;
}

static void print_json(const struct dp_query_count *c, size_t n_shown)
{
    fputs("{\"rows\":[", stdout);
    for (size_t i = 0; i < n_shown; i++) {
        const struct dp_query_node *node = &c->nodes.at[i];
        dp_query_print_json_text(i ? ",\n{" : "\n{", "name", dp_strings_at(&c->names, node->name));
        dp_query_print_json_number(",", "allocated_bytes", node->flat);
        for (size_t k = 0; k < N_COLUMNS; k++)
            dp_query_print_json_number(",", json_names[k], column_of(c, node, k));
        dp_query_print_json_number(",", "saves_ns", saved_ns(c, node));
        putchar('}');
    }
    puts("]}");
}

static void print_cell(int64_t value, const char *unit)
{
    char text[32] = "-";
    if (value)
        dp_query_print_unit(text, sizeof text, value, unit);
    printf("%10s ", text);
}

static void print_table(const struct dp_query_count *c, size_t n_shown)
{
    enum { WIDTH = 6 * 11 + 1 };
    size_t room = dp_query_print_room(dp_query_print_columns(), WIDTH);
    dp_summary_heading(c->view);
    printf("%s%10s %10s %10s %10s %10s %10s  name%s\n", dp_query_print_colour(DP_COLOUR_HEAD), "saves", "allocated",
           "temporary", "of freed", "moved", "outgrown", dp_query_print_colour(DP_COLOUR_NONE));
    for (size_t i = 0; i < n_shown; i++) {
        const struct dp_query_node *node = &c->nodes.at[i];
        char share[16];
        snprintf(share, sizeof share, "%.1f%%",
                 dp_summary_percent(column_of(c, node, TEMPORARY), column_of(c, node, FREED)));
        print_cell(saved_ns(c, node), "nanoseconds");
        print_cell(node->flat, "bytes");
        print_cell(column_of(c, node, TEMPORARY), "count");
        printf("%10s ", share);
        print_cell(column_of(c, node, MOVED_BYTES), "bytes");
        print_cell(column_of(c, node, OUTGROWN_BYTES), "bytes");
        putchar(' ');
        dp_query_print_name(stdout, dp_strings_at(&c->names, node->name), room);
        putchar('\n');
    }
    if (!n_shown)
        puts("No block was temporary, moved or outgrown.");
    dp_summary_heading_losses(c->view);
}

static int show(struct dp_query_count *c, char **paths, size_t n, size_t n_wanted)
{
    int status = dp_query_read(c->view, paths, n);
    if (!status)
        status = choose_columns(c);
    if (status)
        return status;
    if (dp_query_count_rows(c)) {
        dp_query_print_error("churn", "out of memory");
        return DP_EXIT_FAILED;
    }
    drop_others(c);
    qsort_r(c->nodes.at, c->nodes.n, sizeof *c->nodes.at, by_saving, c);
    size_t n_shown = n_wanted && n_wanted < c->nodes.n ? n_wanted : c->nodes.n;
    if (c->view->json)
        print_json(c, n_shown);
    else
        print_table(c, n_shown);
    return dp_query_print_flush(c->view->verb);
}

int dp_cli_churn(int argc, char **argv)
{
    static const struct option options[] = {DP_QUERY_OPTIONS};
    struct dp_query view;
    struct dp_query_count count = {.view = &view};
    size_t n_wanted = 20;
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_query_files_init();
    int status = dp_query_init(&view, "churn", argc);
    for (int option; !status && (option = getopt_long(argc, argv, ":n:", options, NULL)) != -1;)
        status = option == 'n' ? dp_cli_options_count("churn", "-n", &n_wanted) : dp_query_option(&view, argv, option);
    view.type_name = "alloc_space";
    view.needed = types[0];
    if (!status && optind == argc) {
        dp_query_print_error("churn", "no file given: deltaprof churn [OPTION]... PATH...");
        status = DP_EXIT_USAGE;
    }
    if (!status)
        status = dp_cli_live_begin("churn", argv + optind, argc - optind);
    if (!status)
        status = show(&count, argv + optind, (size_t)(argc - optind), n_wanted);
    dp_query_count_fini(&count);
    dp_query_fini(&view);
    return status;
}
