/* SPDX-License-Identifier: MIT */
/*
 * cli/top.c - `deltaprof top`: which functions have most of it, for a terminal.
 */
#include "cli/cli.h"
#include "cli/count.h"
#include "cli/files.h"
#include "cli/units.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME_COLUMN   44 /* where names begin in a line */
#define NAME_LEAST    20
#define MANY_PROGRAMS 8 /* are not all named */

static const char about[] =
    "Shows the functions that have most, of any pprof FILE (- is standard input), raw or gzipped.\n"
    "Over several files, flows (alloc_*, contentions, delay and all others) are summed; what is in use (inuse_*) "
    "comes\n"
    "from the newest file of each process (by the name PROGRAM.PID.SEQ.KIND.pb.gz; other files: of each program, by\n"
    "time) that has not ended, and is summed over processes; if all have ended, from the last file before the end of\n"
    "each. Places that a profile does not name are named by the files that they lie in,\n"
    "where these are here with the same build-id. On a terminal, long names have their middle left out.\n\n"
    "  -n N              how many functions (default 20; 0: all)\n"
    "  --type TYPE       sample type, such as alloc_space (default: the profile's own, else its last)\n"
    "  --label KEY=VALUE only samples with this label; may be given more than once, then all must match\n"
    "  --inherited       memory that a process has from before its fork (label fork=inherited) counts in a sum over\n"
    "                    processes as well\n"
    "  --limit BYTES     most bytes of a FILE, uncompressed (k M G; default 1G)\n";

struct top {
    const char *type_name;
    size_t n_shown, limit_bytes;
    struct dp_merge merge;
    struct dp_cli_count count;
    struct dp_strings programs; /* names of the main ones */
    size_t n_files;
};

static double percent(int64_t part, int64_t whole)
{
    double percent = whole ? 100.0 * (double)part / (double)whole : 0;
    return fabs(percent) < 0.05 ? 0 : percent; /* not -0.0 */
}

static void print_when(const struct top *top)
{
    const struct dp_write_header *header = &top->merge.header;
    time_t seconds = (time_t)(header->time_ns / 1000000000);
    struct tm tm;
    char text[64];
    if (header->time_ns && localtime_r(&seconds, &tm) && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %Z", &tm))
        printf(", from %s", text);
    if (header->duration_ns > 0) {
        dp_cli_unit(text, sizeof text, header->duration_ns, "nanoseconds");
        printf(", %s", text);
    }
}

static void print_programs(const struct dp_strings *programs)
{
    size_t n = dp_strings_count(programs), n_named = n <= MANY_PROGRAMS + 1 ? n : MANY_PROGRAMS; /* 0 is "" */
    for (uint32_t i = 1; i < n_named; i++) {
        fputs(i > 1 ? ", " : n == 2 ? "Program: " : "Programs: ", stdout);
        dp_cli_print_name(stdout, dp_strings_at(programs, i), 0);
    }
    if (n > n_named)
        printf(" and %zu more", n - n_named);
    if (n)
        putchar('\n');
}

/* Which files what is in use comes from. */
static void print_processes(const struct top *top)
{
    const struct dp_merge *merge = &top->merge;
    bool all_ended = merge->n_ended == merge->processes.n;
    printf(", in use by %zu process%s", merge->n_counted, merge->n_counted == 1 ? "" : "es");
    if (all_ended)
        printf(", all ended: from the last file before the end of each (of %zu files)", top->n_files);
    else if (merge->n_ended)
        printf(", from the newest file of each (of %zu files; %zu process%s ended)", top->n_files, merge->n_ended,
               merge->n_ended == 1 ? "" : "es");
    else
        printf(", from the newest file of each (of %zu files)", top->n_files);
    if (merge->n_without)
        printf("\nLeft out: what %zu of them inherited at a fork (--inherited counts it)", merge->n_without);
}

static void print_header(const struct top *top)
{
    const struct dp_merge *merge = &top->merge;
    const struct dp_model *m = &merge->model;
    const char *type = dp_model_text(m, m->types.at[top->count.type].type);
    print_programs(&top->programs);
    fputs("Type: ", stdout);
    dp_cli_print_name(stdout, type, 0);
    if (top->n_files == 1)
        print_when(top);
    else if (dp_merge_is_state(merge, top->count.type))
        print_processes(top);
    else
        printf(", summed over %zu files", top->n_files);
    putchar('\n');
    for (size_t i = 0; i < top->count.n_labels; i++)
        printf("Only: %s\n", top->count.labels[i]);
}

static void print_table(struct top *top)
{
    struct dp_cli_count *c = &top->count;
    const char *unit = dp_model_text(&top->merge.model, top->merge.model.types.at[c->type].unit);
    size_t n = c->nodes.n, n_shown = top->n_shown && top->n_shown < n ? top->n_shown : n;
    size_t n_columns = dp_cli_columns();
    if (n_columns) /* to a terminal, names are cut to what its lines have left */
        n_columns = n_columns > NAME_COLUMN + NAME_LEAST ? n_columns - NAME_COLUMN : NAME_LEAST;
    int64_t shown = 0, sum = 0;
    for (size_t i = 0; i < n_shown; i++)
        dp_merge_sum(&shown, c->nodes.at[i].flat);

    char flat[32], cum[32];
    dp_cli_unit(flat, sizeof flat, shown, unit);
    dp_cli_unit(cum, sizeof cum, c->total, unit);
    printf("Showing %zu of %zu functions: %s of %s (%.1f%%)\n", n_shown, n, flat, cum, percent(shown, c->weight));
    printf("%10s %6s %6s %10s %6s  %s\n", "flat", "flat%", "sum%", "cum", "cum%", "name");
    for (size_t i = 0; i < n_shown; i++) {
        const struct dp_cli_node *node = &c->nodes.at[i];
        dp_merge_sum(&sum, node->flat);
        dp_cli_unit(flat, sizeof flat, node->flat, unit);
        dp_cli_unit(cum, sizeof cum, node->cum, unit);
        printf("%10s %5.1f%% %5.1f%% %10s %5.1f%%  ", flat, percent(node->flat, c->weight), percent(sum, c->weight),
               cum, percent(node->cum, c->weight));
        dp_cli_print_name(stdout, dp_strings_at(&c->names, node->name), n_columns);
        putchar('\n');
    }
}

/* The type to show: the one asked for, else the profile's default, else its last. */
static int choose_type(struct top *top, const char *file)
{
    const struct dp_merge *merge = &top->merge;
    const struct dp_model *m = &merge->model;
    const char *wanted = top->type_name;
    if (!wanted && merge->header.default_type)
        wanted = dp_model_text(m, merge->header.default_type);
    top->count.type = m->types.n ? m->types.n - 1 : 0;
    for (size_t i = 0; i < m->types.n && wanted; i++) {
        if (strcmp(dp_model_text(m, m->types.at[i].type), wanted))
            continue;
        top->count.type = i;
        return 0;
    }
    if (!top->type_name && m->types.n)
        return 0;
    char types[256];
    dp_model_type_names(m, types, sizeof types);
    dp_cli_error("top", "%s: no sample type %s; it has: %s", dp_cli_file_name(file), wanted ? wanted : "at all", types);
    return DP_CLI_FAILED;
}

/* As the file is called: the main mapping of a program that was started through a link has the name of another. */
static int add_program(struct dp_strings *programs, const char *path, const struct dp_decode *d)
{
    size_t n_bytes = 0;
    const char *program = dp_cli_file_program(path, &n_bytes);
    if (!n_bytes && d->mappings.n) {
        program = dp_decode_text(d, d->mappings.at[0].file, &n_bytes);
        const char *slash = n_bytes ? memrchr(program, '/', n_bytes) : NULL;
        if (slash) {
            n_bytes -= (size_t)(slash + 1 - program);
            program = slash + 1;
        }
    }
    return n_bytes && dp_strings_add(programs, program, n_bytes) == DP_STRINGS_NONE ? -ENOMEM : 0;
}

static int read_files(struct top *top, char **files, size_t n)
{
    struct dp_cli_source source = {0};
    struct dp_merge_place *places = calloc(n, sizeof *places);
    int status = !places || dp_cli_places(files, n, places) ? DP_CLI_FAILED : 0;
    for (size_t i = 0; i < n && !status; i++) {
        struct dp_input_error error;
        status = dp_cli_read("top", files[i], top->limit_bytes, &source);
        int result = status ? 0 : dp_merge_add(&top->merge, &source.decode, places[i], &error);
        if (!status && !result)
            result = add_program(&top->programs, files[i], &source.decode);
        if (result)
            status = dp_cli_refuse("top", files[i], result, &error);
    }
    top->n_files = n;
    dp_cli_source_fini(&source);
    free(places);
    return status;
}

static int show(struct top *top, char **files, size_t n)
{
    int status = read_files(top, files, n);
    if (!status)
        status = choose_type(top, files[0]);
    top->count.merge = &top->merge;
    if (!status && (dp_merge_settle(&top->merge) || dp_cli_count_rows(&top->count))) {
        dp_cli_error("top", "out of memory");
        status = DP_CLI_FAILED;
    }
    if (!status) {
        dp_cli_count_sort(&top->count);
        print_header(top);
        print_table(top);
        if (fflush(stdout) || ferror(stdout)) {
            dp_cli_error("top", "standard output: %m");
            status = DP_CLI_FAILED;
        }
    }
    dp_merge_fini(&top->merge);
    dp_strings_fini(&top->programs);
    dp_cli_count_fini(&top->count);
    return status;
}

int dp_cli_top(int argc, char **argv)
{
    static const struct option options[] = {{"type", required_argument, NULL, 't'},
                                            {"label", required_argument, NULL, 'k'},
                                            {"inherited", no_argument, NULL, 'i'},
                                            {"limit", required_argument, NULL, 'l'},
                                            {0}};
    struct top top = {.n_shown = 20, .limit_bytes = DP_INPUT_LIMIT};
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_cli_files_init();
    top.count.labels = calloc((size_t)argc, sizeof *top.count.labels);
    int status = top.count.labels ? 0 : DP_CLI_FAILED;
    for (int option; !status && (option = getopt_long(argc, argv, ":n:", options, NULL)) != -1;) {
        char *end = NULL;
        switch (option) {
        case 'n':
            top.n_shown = strtoul(optarg, &end, 10);
            if (*optarg < '0' || *optarg > '9' || *end) {
                dp_cli_error("top", "-n %s is no number", optarg);
                status = DP_CLI_USAGE;
            }
            break;
        case 't':
            top.type_name = optarg;
            break;
        case 'k':
            top.count.labels[top.count.n_labels++] = optarg;
            top.merge.with_inherited |= !strcmp(optarg, DP_MERGE_FORK "=" DP_MERGE_INHERITED);
            if (!strchr(optarg, '=')) {
                dp_cli_error("top", "--label %s is not KEY=VALUE", optarg);
                status = DP_CLI_USAGE;
            }
            break;
        case 'i':
            top.merge.with_inherited = true;
            break;
        case 'l':
            status = dp_cli_limit("top", optarg, &top.limit_bytes);
            break;
        default:
            status = dp_cli_bad_option(argv, option);
        }
    }
    if (!status && optind == argc) {
        dp_cli_error("top", "no file given: deltaprof top [-n N] [--type TYPE] [--label KEY=VALUE] FILE...");
        status = DP_CLI_USAGE;
    }
    if (!status)
        status = show(&top, argv + optind, (size_t)(argc - optind));
    free(top.count.labels);
    return status;
}
