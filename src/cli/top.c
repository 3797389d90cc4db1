/* SPDX-License-Identifier: MIT */
/* cli/top.c - `deltaprof top`: lists the functions with the largest values. */
#include "cli/cli.h"
#include "cli/count.h"
#include "cli/heading.h"
#include "cli/json.h"
#include "cli/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_COLUMN 44 /* where names begin in a line */
#define NAME_LEAST  20

static const char about[] =
    "Shows the functions that have most, of any pprof file (- is standard input), raw or gzipped, or of all profiles\n"
    "in a directory. Over several files, flows (alloc_*, contentions, delay and all others) are summed; what is in "
    "use\n"
    "(inuse_*) comes from the newest file of each process (by the name PROGRAM.PID.SEQ.KIND.pb.gz; other files: of\n"
    "each program, by time) that has not ended, and is summed over processes; if all have ended, from the last file\n"
    "before the end of each. Lines and inlined functions come from the program's files where these are here with the\n"
    "same build-id and have debug information. On a terminal, long names have their middle left out.\n\n"
    "  -n N              how many functions (default 20; 0: all)\n"
    "  --cum             sorted by what a function and all that it called have\n"
    "  --by WHAT         function (default), line, file, library, or label:KEY\n" DP_CLI_QUERY_HELP;

static void print_table(struct dp_cli_count *c, size_t n_wanted)
{
    static const char *const things[] = {"functions", "lines", "files", "libraries", "labels"};
    const char *unit = dp_cli_query_unit(c->view);
    size_t n = c->nodes.n, n_shown = n_wanted && n_wanted < n ? n_wanted : n;
    size_t n_columns = dp_cli_columns();
    if (n_columns) /* on a terminal, names are cut to the width of the line */
        n_columns = n_columns > NAME_COLUMN + NAME_LEAST ? n_columns - NAME_COLUMN : NAME_LEAST;
    int64_t shown = 0, sum = 0;
    for (size_t i = 0; i < n_shown; i++)
        dp_merge_sum(&shown, c->nodes.at[i].flat);

    char flat[32], cum[32];
    dp_cli_unit(flat, sizeof flat, shown, unit);
    dp_cli_unit(cum, sizeof cum, c->total, unit);
    printf("Showing %zu of %zu %s: %s of %s (%.1f%%)\n", n_shown, n, things[c->by], flat, cum,
           dp_cli_percent(shown, c->weight));
    printf("%10s %6s %6s %10s %6s  %s\n", "flat", "flat%", "sum%", "cum", "cum%", "name");
    for (size_t i = 0; i < n_shown; i++) {
        const struct dp_cli_node *node = &c->nodes.at[i];
        dp_merge_sum(&sum, node->flat);
        dp_cli_unit(flat, sizeof flat, node->flat, unit);
        dp_cli_unit(cum, sizeof cum, node->cum, unit);
        printf("%10s %5.1f%% %5.1f%% %10s %5.1f%%  ", flat, dp_cli_percent(node->flat, c->weight),
               dp_cli_percent(sum, c->weight), cum, dp_cli_percent(node->cum, c->weight));
        dp_cli_print_name(stdout, dp_strings_at(&c->names, node->name), n_columns);
        putchar('\n');
    }
}

static void print_json(const struct dp_cli_count *c, size_t n_wanted)
{
    size_t n_shown = n_wanted && n_wanted < c->nodes.n ? n_wanted : c->nodes.n;
    dp_cli_json_text("{", "type", dp_cli_query_type(c->view));
    dp_cli_json_text(",", "unit", dp_cli_query_unit(c->view));
    dp_cli_json_number(",", "total", c->total);
    fputs(",\"rows\":[", stdout);
    for (size_t i = 0; i < n_shown; i++) {
        const struct dp_cli_node *node = &c->nodes.at[i];
        dp_cli_json_text(i ? ",\n{" : "\n{", "name", dp_strings_at(&c->names, node->name));
        dp_cli_json_number(",", "flat", node->flat);
        dp_cli_json_number(",", "cum", node->cum);
        putchar('}');
    }
    puts("]}");
}

static int show(struct dp_cli_count *c, char **paths, size_t n, size_t n_wanted)
{
    struct dp_cli_query *v = c->view;
    int status = dp_cli_query_read(v, paths, n);
    if (status)
        return status;
    if (dp_cli_count_rows(c)) {
        dp_cli_error("top", "out of memory");
        return DP_CLI_FAILED;
    }
    dp_cli_count_sort(c);
    if (v->json) {
        print_json(c, n_wanted);
    } else {
        dp_cli_heading(v);
        print_table(c, n_wanted);
        dp_cli_heading_empty(v, c->n_rows);
        dp_cli_heading_losses(v);
    }
    return dp_cli_flush("top");
}

static int parse_by(struct dp_cli_count *c, const char *text)
{
    static const char *const words[] = {"function", "line", "file", "library"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(text, words[i])) {
            c->by = (enum dp_cli_by)i;
            return 0;
        }
    if (!strncmp(text, "label:", 6) && text[6]) {
        c->by = DP_CLI_BY_LABEL;
        c->key = text + 6;
        return 0;
    }
    dp_cli_error("top", "--by %s: function, line, file, library or label:KEY", text);
    return DP_CLI_USAGE;
}

static int parse_number(const char *text, size_t *number)
{
    char *end;
    *number = strtoul(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end)
        return 0;
    dp_cli_error("top", "-n %s is no number", text);
    return DP_CLI_USAGE;
}

int dp_cli_top(int argc, char **argv)
{
    static const struct option options[] = {
        {"cum", no_argument, NULL, 'c'}, {"by", required_argument, NULL, 'b'}, DP_CLI_QUERY_OPTIONS};
    struct dp_cli_query view;
    struct dp_cli_count count = {.view = &view};
    size_t n_wanted = 20;
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_cli_files_init();
    int status = dp_cli_query_init(&view, "top", argc);
    for (int option; !status && (option = getopt_long(argc, argv, ":n:", options, NULL)) != -1;) {
        if (option == 'n')
            status = parse_number(optarg, &n_wanted);
        else if (option == 'c')
            count.by_cum = true;
        else if (option == 'b')
            status = parse_by(&count, optarg);
        else
            status = dp_cli_query_option(&view, argv, option);
    }
    if (!status && optind == argc) {
        dp_cli_error("top", "no file given: deltaprof top [OPTION]... PATH...");
        status = DP_CLI_USAGE;
    }
    if (!status)
        status = show(&count, argv + optind, (size_t)(argc - optind), n_wanted);
    dp_cli_count_fini(&count);
    dp_cli_query_fini(&view);
    return status;
}
