/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/tree.c - `deltaprof tree`: prints a call tree, for a terminal of 80 columns.
 *
 * If a caller's whole value belongs to one called function, that function is printed below it without numbers and
 * without indentation: most of a deep stack is such a chain. Nodes with less than --min of the total are counted
 * together.
 */
#include "tool/cli/cli.h"
#include "tool/cli/live.h"
#include "tool/summary/heading.h"
#include "tool/query/json.h"
#include "tool/query/print.h"
#include "tool/query/units.h"
#include "tool/query/calltree.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_COLUMN = 19, NARROW_NAME_COLUMN = 12, NAME_LEAST = 24, NARROW_LEAST = 8, MAX_INDENT = 30 };

static const char about[] =
    "Shows stacks as a tree, from the outermost function down to the functions that allocated or waited. Reads the\n"
    "same files as top, by the same rules. A function without numbers has the same value as the function above it.\n"
    "\n"
    "  --callers REGEX   show the callers of the functions that match, up to the outermost\n"
    "  --callees REGEX   show the functions that the functions that match call; with --callers or --callees,\n"
    "                    nothing is folded\n"
    "  --min PERCENT     functions with less than this share of the total are shown as one sum (default "
    "1)\n" DP_QUERY_HELP;

struct shown {
    struct dp_query view;
    struct dp_query_calltree tree, up; /* of called functions, with the totals; of callers, for --callers */
    regex_t callers, callees;
    bool has_callers, has_callees;
    const char *callers_text, *callees_text;
    double min_percent;
    DP_VEC(uint32_t) path; /* the names of a row, while it is added to a tree */
};

/* ---- building --------------------------------------------------------------------------------------------------- */

static bool is_match(const struct shown *s, const regex_t *regex, size_t at)
{
    const struct dp_query_naming_frames *f = &s->view.frames;
    return !regexec(regex, dp_query_naming_frames_text(f, f->at.at[s->view.stack.at[at]].name), 0, NULL, 0);
}

static int push_name(struct shown *s, size_t at)
{
    uint32_t *to = dp_vec_push(&s->path);
    if (!to)
        return -ENOMEM;
    *to = s->view.frames.at.at[s->view.stack.at[at]].name;
    return 0;
}

/* Adds a row to the tree of callers: from the innermost match to its callers. A row without a match is left out. */
static int add_callers(struct shown *s, int64_t value)
{
    size_t at = 0, n = s->view.stack.n;
    while (at < n && !is_match(s, &s->callers, at))
        at++;
    if (at == n)
        return 0;
    dp_vec_clear(&s->path);
    for (; at < n; at++)
        if (push_name(s, at))
            return -ENOMEM;
    return dp_query_calltree_add(&s->up, s->path.at, s->path.n, value);
}

/* Adds a row to the tree of called functions: from the outermost frame, or the outermost match, to the leaf. */
static int add_callees(struct shown *s, int64_t value)
{
    size_t at = s->view.stack.n;
    while (s->has_callees && at > 0 && !is_match(s, &s->callees, at - 1))
        at--;
    if (!at)
        return 0;
    dp_vec_clear(&s->path);
    while (at > 0)
        if (push_name(s, --at))
            return -ENOMEM;
    return dp_query_calltree_add(&s->tree, s->path.at, s->path.n, value);
}

static int build(struct shown *s)
{
    struct dp_query *v = &s->view;
    for (uint32_t row = 0; row < v->merge.model.rows.n; row++) {
        int64_t value = dp_query_value(v, row);
        if (!value || !dp_query_has_labels(v, row))
            continue;
        dp_model_merge_sum(&s->tree.total, value);
        dp_model_merge_sum(&s->tree.weight, value > INT64_MIN ? llabs(value) : INT64_MAX);
        int shown = dp_query_row(v, row);
        int err = shown < 0 ? shown : 0;
        if (!err && shown && s->has_callers)
            err = add_callers(s, value);
        if (!err && shown && (s->has_callees || !s->has_callers))
            err = add_callees(s, value);
        if (err)
            return err;
    }
    int err = dp_query_calltree_sort(&s->tree);
    return err ? err : dp_query_calltree_sort(&s->up);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

/* An entry of the list of things still to print: a node, or the sum of siblings that are too small. */
struct item {
    uint32_t node; /* 0: the sum */
    size_t indent;
    size_t n_skipped; /* of the sum: number of nodes, and their value */
    int64_t value;
};

struct printing {
    const struct shown *shown;
    const struct dp_query_calltree *tree;
    size_t n_columns;          /* of the terminal for a name with its indentation; 0: no limit */
    bool is_narrow;            /* without the column cum% */
    DP_VEC(struct item) items; /* a stack: the last one is printed next */
};

static void print_numbers(const struct printing *p, int64_t value)
{
    char cum[32];
    dp_query_print_unit(cum, sizeof cum, value, dp_query_unit(&p->shown->view));
    if (p->is_narrow)
        printf("%10s  ", cum);
    else
        printf("%10s %5.1f%%  ", cum, dp_summary_percent(value, p->shown->tree.weight));
}

static void print_text(const struct printing *p, size_t indent, const char *text)
{
    size_t most = !p->n_columns || p->n_columns >= 2 * MAX_INDENT ? MAX_INDENT : p->n_columns / 2;
    if (p->n_columns && p->n_columns < most + NARROW_LEAST)
        most = p->n_columns > NARROW_LEAST ? p->n_columns - NARROW_LEAST : 0;
    size_t width = indent < most ? indent : most;
    printf("%*s", (int)width, "");
    dp_query_print_name(stdout, text, dp_query_print_room(p->n_columns, width));
    putchar('\n');
}

static const char *name_of(const struct printing *p, uint32_t node)
{
    return dp_query_naming_frames_text(&p->shown->view.frames, p->tree->nodes.at[node].name);
}

static bool is_small(const struct printing *p, int64_t value)
{
    return fabs((double)value) < p->shown->min_percent / 100 * (double)p->shown->tree.weight;
}

/* Prints a node and the chain of only children below it. Returns the node at the end of the chain. */
static uint32_t print_chain(const struct printing *p, const struct item *item)
{
    const struct dp_query_calltree_node *nodes = p->tree->nodes.at;
    uint32_t at = item->node;
    print_numbers(p, nodes[at].cum);
    print_text(p, item->indent, name_of(p, at));
    while (nodes[at].child && !nodes[nodes[at].child].next && !nodes[at].flat) {
        at = nodes[at].child;
        printf("%*s", p->is_narrow ? NARROW_NAME_COLUMN : NAME_COLUMN, "");
        print_text(p, item->indent, name_of(p, at));
    }
    return at;
}

static int push_item(struct printing *p, struct item item)
{
    struct item *to = dp_vec_push(&p->items);
    if (!to)
        return -ENOMEM;
    *to = item;
    return 0;
}

/* Pushes the children of a node, which are sorted, so that the largest is on top. */
static int push_children(struct printing *p, uint32_t node, size_t indent)
{
    const struct dp_query_calltree_node *nodes = p->tree->nodes.at;
    struct item left_out = {.indent = indent};
    size_t n_before = p->items.n;
    int err = 0;
    for (uint32_t child = nodes[node].child; child && !err; child = nodes[child].next) {
        if (is_small(p, nodes[child].cum)) {
            left_out.n_skipped++;
            dp_model_merge_sum(&left_out.value, nodes[child].cum);
        } else {
            err = push_item(p, (struct item){.node = child, .indent = indent});
        }
    }
    if (!err && left_out.n_skipped)
        err = push_item(p, left_out);
    for (size_t i = n_before, j = p->items.n; i + 1 < j; i++) {
        struct item item = p->items.at[i];
        p->items.at[i] = p->items.at[--j];
        p->items.at[j] = item;
    }
    return err;
}

/* Prints a tree under the heading `what` and `of`, such as "callers of " and a regular expression. */
static int print_tree(const struct shown *s, const struct dp_query_calltree *tree, const char *what, const char *of)
{
    size_t n_columns = dp_query_print_columns();
    struct printing p = {.shown = s, .tree = tree};
    p.is_narrow = n_columns && n_columns < NAME_COLUMN + NAME_LEAST;
    p.n_columns = dp_query_print_room(n_columns, p.is_narrow ? NARROW_NAME_COLUMN : NAME_COLUMN);
    if (p.is_narrow)
        printf("%s%10s  %s%s%s\n", dp_query_print_colour(DP_COLOUR_HEAD), "cum", what, of,
               dp_query_print_colour(DP_COLOUR_NONE));
    else
        printf("%s%10s %6s  %s%s%s\n", dp_query_print_colour(DP_COLOUR_HEAD), "cum", "cum%", what, of,
               dp_query_print_colour(DP_COLOUR_NONE));
    int err = tree->nodes.n ? push_children(&p, 0, 0) : 0;
    while (!err && p.items.n) {
        struct item item = p.items.at[--p.items.n];
        if (item.node) {
            uint32_t end = print_chain(&p, &item);
            err = push_children(&p, end, item.indent + 2);
        } else {
            char text[64];
            snprintf(text, sizeof text, "(%zu more)", item.n_skipped);
            print_numbers(&p, item.value);
            print_text(&p, item.indent, text);
        }
    }
    dp_vec_fini(&p.items);
    return err;
}

static int print_all(struct shown *s)
{
    char total[32];
    dp_summary_heading(&s->view);
    dp_query_print_unit(total, sizeof total, s->tree.total, dp_query_unit(&s->view));
    printf("Total: %s\n", total);
    int err = 0;
    if (s->has_callers)
        err = print_tree(s, &s->up, "callers of ", s->callers_text);
    if (!err && s->has_callees)
        err = print_tree(s, &s->tree, "callees of ", s->callees_text);
    else if (!err && !s->has_callers)
        err = print_tree(s, &s->tree, "name", "");
    if (!s->has_callers && !s->has_callees)
        dp_summary_heading_empty(&s->view, s->tree.n_rows);
    dp_summary_heading_losses(&s->view);
    return err;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void print_json_tree(const struct shown *s, const struct dp_query_calltree *tree)
{
    const struct dp_query_calltree_node *nodes = tree->nodes.at;
    putchar('[');
    uint32_t at = tree->nodes.n ? nodes[0].child : 0;
    while (at) {
        dp_query_print_json_text("{", "name", dp_query_naming_frames_text(&s->view.frames, nodes[at].name));
        dp_query_print_json_number(",", "flat", nodes[at].flat);
        dp_query_print_json_number(",", "cum", nodes[at].cum);
        fputs(",\"children\":[", stdout);
        if (nodes[at].child) {
            at = nodes[at].child;
            continue;
        }
        fputs("]}", stdout);
        while (at && !nodes[at].next) {
            at = nodes[at].parent;
            if (at)
                fputs("]}", stdout);
        }
        if (at) {
            at = nodes[at].next;
            puts(",");
        }
    }
    putchar(']');
}

static void print_json(const struct shown *s)
{
    dp_query_print_json_text("{", "type", dp_query_type(&s->view));
    dp_query_print_json_text(",", "unit", dp_query_unit(&s->view));
    dp_query_print_json_number(",", "total", s->tree.total);
    if (s->has_callers) {
        fputs(",\"callers\":", stdout);
        print_json_tree(s, &s->up);
    }
    if (s->has_callees || !s->has_callers) {
        fputs(s->has_callees ? ",\"callees\":" : ",\"children\":", stdout);
        print_json_tree(s, &s->tree);
    }
    puts("}");
}

/* ---- the verb --------------------------------------------------------------------------------------------------- */

static int show(struct shown *s, char **paths, size_t n)
{
    int status = dp_query_read(&s->view, paths, n);
    if (status)
        return status;
    int err = build(s);
    if (!err && ((s->has_callers && !s->up.n_rows) || (s->has_callees && !s->tree.n_rows))) {
        dp_query_print_error("tree", "no function matches %s; deltaprof top -n0 names them all",
                             s->has_callers && !s->up.n_rows ? s->callers_text : s->callees_text);
        return DP_EXIT_FAILED;
    }
    if (!err && s->view.json)
        print_json(s);
    else if (!err)
        err = print_all(s);
    if (err) {
        dp_query_print_error("tree", "out of memory");
        return DP_EXIT_FAILED;
    }
    return dp_query_print_flush(s->view.verb);
}

/* Compiles the value of --callers or --callees. */
static int read_function(regex_t *regex, bool *has, const char **text, const char *option)
{
    char why[128];
    int err = *has ? REG_BADPAT : regcomp(regex, optarg, REG_EXTENDED | REG_NOSUB);
    if (err) {
        regerror(err, regex, why, sizeof why);
        dp_query_print_error("tree", "%s %s: %s", option, optarg, *has ? "may be given once; A|B matches both" : why);
        return DP_EXIT_USAGE;
    }
    *has = true;
    *text = optarg;
    return 0;
}

static int read_min(double *percent)
{
    char *end;
    *percent = strtod(optarg, &end);
    bool is_number = end != optarg;
    end += *end == '%';
    if (is_number && !*end && *percent >= 0 && *percent <= 100)
        return 0;
    dp_query_print_error("tree", "--min %s is not a percentage, which is a number from 0 to 100", optarg);
    return DP_EXIT_USAGE;
}

int dp_cli_tree(int argc, char **argv)
{
    static const struct option options[] = {{"callers", required_argument, NULL, 'r'},
                                            {"callees", required_argument, NULL, 'e'},
                                            {"min", required_argument, NULL, 'm'},
                                            DP_QUERY_OPTIONS};
    struct shown s = {.min_percent = 1};
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_query_files_init();
    int status = dp_query_init(&s.view, "tree", argc);
    s.view.falls_back = true;
    for (int option; !status && (option = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (option == 'r')
            status = read_function(&s.callers, &s.has_callers, &s.callers_text, "--callers");
        else if (option == 'e')
            status = read_function(&s.callees, &s.has_callees, &s.callees_text, "--callees");
        else if (option == 'm')
            status = read_min(&s.min_percent);
        else
            status = dp_query_option(&s.view, argv, option);
    }
    if (!status && optind == argc) {
        dp_query_print_error("tree", "no file given: deltaprof tree [OPTION]... PATH...");
        status = DP_EXIT_USAGE;
    }
    s.view.raw |= s.has_callers || s.has_callees; /* a folded function may be the one that the user asks for */
    if (!status)
        status = dp_cli_live_begin("tree", argv + optind, argc - optind);
    if (!status)
        status = show(&s, argv + optind, (size_t)(argc - optind));
    if (s.has_callers)
        regfree(&s.callers);
    if (s.has_callees)
        regfree(&s.callees);
    dp_vec_fini(&s.path);
    dp_query_calltree_fini(&s.tree);
    dp_query_calltree_fini(&s.up);
    dp_query_fini(&s.view);
    return status;
}
