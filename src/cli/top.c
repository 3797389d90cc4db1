/* SPDX-License-Identifier: MIT */
/*
 * cli/top.c - `deltaprof top`: which functions have most of it, for a terminal.
 *
 * Two passes over the merged rows: `flat` is what a function has itself (the innermost line of the leaf), `cum` is that
 * and all it called; a function that stands in a stack many times counts once. Frames without lines are named by the
 * object's file if it is there unchanged, else by object and place in it, so that profiles nobody symbolised are of use
 * as well.
 */
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/names.h"
#include "cli/units.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME_COLUMN 44 /* where names begin in a line */
#define NAME_LEAST  20

static const char about[] =
    "Shows the functions that have most, of any pprof FILE (- is standard input), raw or gzipped.\n"
    "Over several files, flows (alloc_*, contentions, delay and all others) are summed; what is in use (inuse_*) "
    "comes\n"
    "from the newest file of each process (by the name PROGRAM.PID.SEQ.KIND.pb.gz; other files: of each program, by\n"
    "time) and is summed over processes. Places that a profile does not name are named by the files that they lie in,\n"
    "where these are here with the same build-id.\n\n"
    "  -n N              how many functions (default 20; 0: all)\n"
    "  --type TYPE       sample type, such as alloc_space (default: the profile's own, else its last)\n"
    "  --label KEY=VALUE only samples with this label; may be given more than once, then all must match\n"
    "  --limit BYTES     most bytes of a FILE, uncompressed (k M G; default 1G)\n";

struct node {
    uint32_t name;     /* in names */
    uint32_t last_row; /* + 1: where cum was counted last */
    int64_t flat, cum;
};

struct top {
    const char *type_name;
    char **labels; /* KEY=VALUE */
    size_t n_labels, n_shown, limit_bytes;
    struct dp_merge merge;
    size_t type;
    struct dp_strings names;
    struct dp_cli_names places;
    DP_VEC(struct node) nodes;    /* by name */
    DP_VEC(uint32_t) of_location; /* node + 1 of a location without lines; 0: not known yet */
    DP_VEC(uint32_t) of_function;
    DP_VEC(uint32_t) seen; /* by location: row + 1 where it was counted last; a recursion's lines are counted once */
    int64_t total, weight; /* the sum, and that of absolute values: what percentages are of, as go tool pprof's */
    size_t n_files, n_processes;
};

static struct node *node_named(struct top *top, const char *name, size_t n_bytes)
{
    uint32_t number = dp_strings_add(&top->names, name, n_bytes);
    while (number != DP_STRINGS_NONE && top->nodes.n <= number) {
        struct node *node = dp_vec_push(&top->nodes);
        if (!node)
            return NULL;
        *node = (struct node){.name = (uint32_t)top->nodes.n - 1};
    }
    return number == DP_STRINGS_NONE ? NULL : &top->nodes.at[number];
}

static struct node *node_of_place(struct top *top, uint32_t number)
{
    const struct dp_model *m = &top->merge.model;
    const struct dp_model_location *location = &m->locations.at[number];
    uint32_t *known = &top->of_location.at[number];
    if (!*known) {
        char text[512];
        const char *name = dp_cli_names_find(&top->places, m, number);
        const char *file = location->mapping ? dp_model_text(m, m->mappings.at[location->mapping - 1].file) : "";
        const char *base = strrchr(file, '/');
        base = base && base[1] ? base + 1 : file;
        int n = location->object
                    ? snprintf(text, sizeof text, "%.400s+0x%llx", base, (unsigned long long)location->place)
                    : snprintf(text, sizeof text, "0x%llx", (unsigned long long)location->address);
        struct node *node = node_named(top, name ? name : text, name ? strlen(name) : (size_t)n);
        if (!node)
            return NULL;
        *known = node->name + 1;
    }
    return &top->nodes.at[*known - 1];
}

static struct node *node_of_line(struct top *top, const struct dp_model_line *line)
{
    const struct dp_model *m = &top->merge.model;
    if (!line->function)
        return node_named(top, "[no name]", 9);
    uint32_t *known = &top->of_function.at[line->function - 1];
    if (!*known) {
        const struct dp_model_function *f = &m->functions.at[line->function - 1];
        uint32_t name = f->name ? f->name : f->system_name;
        struct node *node = name ? node_named(top, dp_model_text(m, name), dp_strings_size(&m->strings, name))
                                 : node_named(top, "[no name]", 9);
        if (!node)
            return NULL;
        *known = node->name + 1;
    }
    return &top->nodes.at[*known - 1];
}

static void count(struct node *node, uint32_t row, int64_t value, int is_leaf)
{
    if (is_leaf)
        dp_merge_sum(&node->flat, value);
    if (node->last_row != row + 1)
        dp_merge_sum(&node->cum, value);
    node->last_row = row + 1;
}

static int count_row(struct top *top, uint32_t row, int64_t value)
{
    const struct dp_model *m = &top->merge.model;
    const uint32_t *stack = dp_model_stack(m, row);
    uint32_t depth = dp_model_depth(m, row);
    int is_leaf = 1;
    for (uint32_t i = 0; i < depth; i++) {
        const struct dp_model_location *location = &m->locations.at[stack[i]];
        if (top->seen.at[stack[i]] == row + 1)
            continue;
        top->seen.at[stack[i]] = row + 1;
        for (uint32_t j = 0; j < location->n_lines || j == 0; j++) {
            struct node *node = location->n_lines ? node_of_line(top, &m->lines.at[location->first_line + j])
                                                  : node_of_place(top, stack[i]);
            if (!node)
                return -1;
            count(node, row, value, is_leaf);
            is_leaf = 0;
        }
    }
    struct node *none = depth ? NULL : node_named(top, "[no stack]", 10);
    if (none)
        count(none, row, value, 1);
    return depth || none ? 0 : -1;
}

/* Whether one of the row's labels is KEY=VALUE; a number matches its digits. */
static int has_label(const struct dp_model *m, uint32_t row, const char *wanted)
{
    for (uint32_t i = 0; i < dp_model_n_labels(m, row); i++) {
        const struct dp_model_label *label = &m->labels.at[dp_model_labels(m, row)[i]];
        char number[32];
        const char *value = number, *key = dp_model_text(m, label->key);
        snprintf(number, sizeof number, "%lld", (long long)label->num);
        if (label->str)
            value = dp_model_text(m, label->str);
        size_t n_key = strlen(key); /* there may be a '=' in it */
        if (!strncmp(key, wanted, n_key) && wanted[n_key] == '=' && !strcmp(value, wanted + n_key + 1))
            return 1;
    }
    return 0;
}

static int count_rows(struct top *top)
{
    const struct dp_model *m = &top->merge.model;
    if (!dp_vec_room(&top->of_location, m->locations.n + 1) || !dp_vec_room(&top->of_function, m->functions.n + 1) ||
        !dp_vec_room(&top->seen, m->locations.n + 1))
        return -1;
    for (uint32_t row = 0; row < m->rows.n; row++) {
        int64_t value = top->merge.values.at[row * m->types.n + top->type];
        int wanted = value != 0;
        for (size_t i = 0; i < top->n_labels && wanted; i++)
            wanted = has_label(m, row, top->labels[i]);
        if (!wanted)
            continue;
        dp_merge_sum(&top->total, value);
        dp_merge_sum(&top->weight, value > INT64_MIN ? llabs(value) : INT64_MAX);
        if (count_row(top, row, value))
            return -1;
    }
    return 0;
}

static const struct top *sorted; /* for compare_nodes: qsort has no context */

static int compare_nodes(const void *a, const void *b)
{
    const struct node *x = a, *y = b;
    double flat = fabs((double)y->flat) - fabs((double)x->flat), cum = fabs((double)y->cum) - fabs((double)x->cum);
    if (flat != 0)
        return flat < 0 ? -1 : 1;
    if (cum != 0)
        return cum < 0 ? -1 : 1;
    return strcmp(dp_strings_at(&sorted->names, x->name), dp_strings_at(&sorted->names, y->name));
}

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

static void print_header(const struct top *top)
{
    const struct dp_merge *merge = &top->merge;
    const struct dp_model *m = &merge->model;
    const char *type = dp_model_text(m, m->types.at[top->type].type);
    const char *program = m->main_mapping ? dp_model_text(m, m->mappings.at[m->main_mapping - 1].file) : "";
    if (*program) {
        fputs("Program: ", stdout);
        dp_cli_print_name(stdout, strrchr(program, '/') ? strrchr(program, '/') + 1 : program, 0);
        putchar('\n');
    }
    fputs("Type: ", stdout);
    dp_cli_print_name(stdout, type, 0);
    if (top->n_files == 1)
        print_when(top);
    else if (dp_merge_is_state(merge, top->type))
        printf(", in use by %zu process%s, from the newest file of each (of %zu files)", top->n_processes,
               top->n_processes == 1 ? "" : "es", top->n_files);
    else
        printf(", summed over %zu files", top->n_files);
    putchar('\n');
    for (size_t i = 0; i < top->n_labels; i++)
        printf("Only: %s\n", top->labels[i]);
}

static void print_table(struct top *top)
{
    const char *unit = dp_model_text(&top->merge.model, top->merge.model.types.at[top->type].unit);
    size_t n = 0, n_shown, n_columns = dp_cli_columns();
    if (n_columns) /* to a terminal, names are cut to what its lines have left */
        n_columns = n_columns > NAME_COLUMN + NAME_LEAST ? n_columns - NAME_COLUMN : NAME_LEAST;
    int64_t shown = 0, sum = 0;
    for (size_t i = 0; i < top->nodes.n; i++)
        if (top->nodes.at[i].cum || top->nodes.at[i].flat)
            top->nodes.at[n++] = top->nodes.at[i];
    sorted = top;
    if (n)
        qsort(top->nodes.at, n, sizeof *top->nodes.at, compare_nodes);
    n_shown = top->n_shown && top->n_shown < n ? top->n_shown : n;
    for (size_t i = 0; i < n_shown; i++)
        dp_merge_sum(&shown, top->nodes.at[i].flat);

    char flat[32], cum[32];
    dp_cli_unit(flat, sizeof flat, shown, unit);
    dp_cli_unit(cum, sizeof cum, top->total, unit);
    printf("Showing %zu of %zu functions: %s of %s (%.1f%%)\n", n_shown, n, flat, cum, percent(shown, top->weight));
    printf("%10s %6s %6s %10s %6s  %s\n", "flat", "flat%", "sum%", "cum", "cum%", "name");
    for (size_t i = 0; i < n_shown; i++) {
        const struct node *node = &top->nodes.at[i];
        dp_merge_sum(&sum, node->flat);
        dp_cli_unit(flat, sizeof flat, node->flat, unit);
        dp_cli_unit(cum, sizeof cum, node->cum, unit);
        printf("%10s %5.1f%% %5.1f%% %10s %5.1f%%  ", flat, percent(node->flat, top->weight), percent(sum, top->weight),
               cum, percent(node->cum, top->weight));
        dp_cli_print_name(stdout, dp_strings_at(&top->names, node->name), n_columns);
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
    top->type = m->types.n ? m->types.n - 1 : 0;
    for (size_t i = 0; i < m->types.n && wanted; i++) {
        if (strcmp(dp_model_text(m, m->types.at[i].type), wanted))
            continue;
        top->type = i;
        return 0;
    }
    if (!top->type_name && m->types.n)
        return 0;
    char types[256];
    dp_model_type_names(m, types, sizeof types);
    dp_cli_error("top", "%s: no sample type %s; it has: %s", dp_cli_file_name(file), wanted ? wanted : "at all", types);
    return DP_CLI_FAILED;
}

static int read_files(struct top *top, char **files, size_t n)
{
    struct dp_cli_source source = {0};
    enum dp_merge_state *states = calloc(n, sizeof *states);
    int status = !states || dp_cli_states(files, n, states) ? DP_CLI_FAILED : 0;
    for (size_t i = 0; i < n && !status; i++) {
        struct dp_input_error error;
        status = dp_cli_read("top", files[i], top->limit_bytes, &source);
        int result = status ? 0 : dp_merge_add(&top->merge, &source.decode, states[i], &error);
        if (result)
            status = dp_cli_refuse("top", files[i], result, &error);
        top->n_processes += states[i] == DP_MERGE_NEWEST;
    }
    top->n_files = n;
    top->n_processes += top->merge.loose.n;
    dp_cli_source_fini(&source);
    free(states);
    return status;
}

static int show(struct top *top, char **files, size_t n)
{
    int status = read_files(top, files, n);
    if (!status)
        status = choose_type(top, files[0]);
    if (!status && (dp_merge_settle(&top->merge) || count_rows(top))) {
        dp_cli_error("top", "out of memory");
        status = DP_CLI_FAILED;
    }
    if (!status) {
        print_header(top);
        print_table(top);
        if (fflush(stdout) || ferror(stdout)) {
            dp_cli_error("top", "standard output: %m");
            status = DP_CLI_FAILED;
        }
    }
    dp_merge_fini(&top->merge);
    dp_strings_fini(&top->names);
    dp_cli_names_fini(&top->places);
    dp_vec_fini(&top->nodes);
    dp_vec_fini(&top->of_location);
    dp_vec_fini(&top->of_function);
    dp_vec_fini(&top->seen);
    return status;
}

int dp_cli_top(int argc, char **argv)
{
    static const struct option options[] = {{"type", required_argument, NULL, 't'},
                                            {"label", required_argument, NULL, 'k'},
                                            {"limit", required_argument, NULL, 'l'},
                                            {0}};
    struct top top = {.n_shown = 20, .limit_bytes = DP_INPUT_LIMIT};
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_cli_files_init();
    top.labels = calloc((size_t)argc, sizeof *top.labels);
    int status = top.labels ? 0 : DP_CLI_FAILED;
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
            top.labels[top.n_labels++] = optarg;
            if (!strchr(optarg, '=')) {
                dp_cli_error("top", "--label %s is not KEY=VALUE", optarg);
                status = DP_CLI_USAGE;
            }
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
    free(top.labels);
    return status;
}
