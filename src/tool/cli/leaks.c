/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/leaks.c - `deltaprof leaks`: lists the stacks that probably leak.
 *
 * A stack begins at the first frame of the user's own code: stacks that differ only in library frames below it are the
 * same. Stacks without such a frame belong to libraries; their one-time allocations are counted together. The same
 * stack in several processes is one leak.
 */
#include "tool/cli/cli.h"
#include "tool/cli/leaks.h"
#include "tool/query/print.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_SHOWN = 8 };

static const char about[] =
    "Judges whether a program leaks, from heap profiles of successive ticks. The verdict is one of three: leak; no "
    "leak;\n"
    "cannot tell, with what would settle it. A stack leaks if its memory in use grows more than chance and a higher\n"
    "load explain, and if the growth does not end. Time counts as far as the program works: an idle time after a load\n"
    "says nothing. The first quarter of the work is left out, because all programs grow when they start; so are the\n"
    "ticks in which a program shuts down. A cache that filled up, a table that was built and a load that rose are no\n"
    "leaks. A data set that only grows cannot be distinguished from a leak and is shown as one.\n"
    "Stacks begin at the first function of the program's own code.\n"
    "\n"
    "10 ticks of work and 30 samples are needed for the verdict that nothing leaks.\n"
    "\n"
    "  -n N              how many leaks (default 10; 0: all)\n"
    "  --confidence N    show leaks of at least this confidence, in percent (default 50)\n"
    "  --depth N         how many functions of each stack (default 8; 0: all)\n" DP_QUERY_HELP_LABEL
        DP_QUERY_HELP_STACKS DP_QUERY_HELP_INHERITED DP_QUERY_HELP_JSON DP_QUERY_HELP_LIMIT DP_COLOUR_HELP;

/* ---- the verb --------------------------------------------------------------------------------------------------- */

/* Reads the profiles, and judges. */
static int find(struct dp_cli_leaks *r, char **paths, size_t n_paths)
{
    struct dp_query *v = &r->view;
    v->argument = paths[0];
    int status = dp_query_paths_add_all(&v->paths, v->verb, paths, n_paths);
    if (!status)
        status = dp_query_paths_choose(&v->paths, v->verb, v->kind, "inuse_space");
    if (!status)
        status = dp_leaks_judge(&r->judge);
    return status;
}

static int show(struct dp_cli_leaks *r, char **paths, size_t n_paths)
{
    int status = find(r, paths, n_paths);
    if (status)
        return status;
    size_t n = r->n_wanted && r->n_wanted < r->judge.leaks.n ? r->n_wanted : r->judge.leaks.n;
    if (r->view.json ? dp_cli_leaks_json(r, n) : dp_cli_leaks_print(r, n)) {
        dp_query_print_error("leaks", "out of memory");
        return DP_EXIT_FAILED;
    }
    return dp_query_end(&r->view);
}

static void fini(struct dp_cli_leaks *r)
{
    dp_leaks_fini(&r->judge);
    dp_query_fini(&r->view);
}

/* ---- one sentence ----------------------------------------------------------------------------------------------- */

static void describe_worst(struct dp_cli_leaks_summary *to, struct dp_cli_leaks *r, struct dp_query_stacks *stacks)
{
    const struct dp_leaks_row *worst = &r->judge.leaks.at[0];
    struct dp_query *v = &r->view;
    to->worst_bytes = (int64_t)worst->bytes;
    to->worst_per_hour = (int64_t)worst->bytes_per_hour;
    if (dp_query_row(v, worst->row) < 0 || !v->stack.n)
        return;
    size_t from = worst->n_own < v->stack.n ? worst->n_own : dp_leaks_shown_frame(v);
    dp_cli_place_text(to->worst, sizeof to->worst, v, from);
    to->stack = dp_query_stacks_add(stacks, v, from);
}

int dp_cli_leaks_summarize(struct dp_cli_leaks_summary *to, const char *verb, char **paths, size_t n_paths,
                           struct dp_query_stacks *stacks)
{
    struct dp_cli_leaks r = {.judge = {.view = &r.view, .least = DP_LEAKS_SURE}};
    *to = (struct dp_cli_leaks_summary){.stack = DP_STRINGS_NONE};
    int status = dp_query_init(&r.view, verb, 1);
    if (!status)
        status = find(&r, paths, n_paths);
    for (size_t i = 0; i < r.judge.leaks.n && !status; i++)
        to->bytes += (int64_t)r.judge.leaks.at[i].bytes;
    to->n_ticks = r.judge.n_ticks;
    to->n_leaks = r.judge.leaks.n;
    to->verdict = r.judge.verdict;
    snprintf(to->needs, sizeof to->needs, "%s", r.judge.needs);
    if (!status && to->n_leaks)
        describe_worst(to, &r, stacks);
    fini(&r);
    return status;
}

/* ---- the verb's options ----------------------------------------------------------------------------------------- */

static int take_number(const char *option, double most, double *number)
{
    char *end;
    *number = strtod(optarg, &end);
    end += *end == '%';
    if (end != optarg && !*end && *number >= 0 && *number <= most)
        return 0;
    dp_query_print_error("leaks", "%s %s is not a number from 0 to %.0f", option, optarg, most);
    return DP_EXIT_USAGE;
}

int dp_cli_leaks(int argc, char **argv)
{
    static const struct option options[] = {
        {"confidence", required_argument, NULL, 'c'}, {"depth", required_argument, NULL, 'd'}, DP_QUERY_OPTIONS};
    struct dp_cli_leaks r = {.n_frames = 0};
    double n_wanted = 10, percent = 100 * DP_LEAKS_SURE, n_frames = STACK_SHOWN;
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_query_files_init();
    int status = dp_query_init(&r.view, "leaks", argc);
    for (int option; !status && (option = getopt_long(argc, argv, ":n:", options, NULL)) != -1;) {
        if (option == 'n')
            status = take_number("-n", 1e9, &n_wanted);
        else if (option == 'c')
            status = take_number("--confidence", 100, &percent);
        else if (option == 'd')
            status = take_number("--depth", 1e9, &n_frames);
        else
            status = dp_query_option(&r.view, argv, option);
    }
    if (!status && optind == argc) {
        dp_query_print_error("leaks", "no profiles given: deltaprof leaks [OPTION]... PATH...");
        status = DP_EXIT_USAGE;
    }
    if (!status && (r.view.at_text || (r.view.type_name && strcmp(r.view.type_name, "inuse_space")))) {
        dp_query_print_error("leaks", "no %s: leaks looks at inuse_space of all ticks",
                             r.view.at_text ? "--at" : "--type");
        status = DP_EXIT_USAGE;
    }
    r.judge.view = &r.view;
    r.judge.least = percent / 100;
    r.n_wanted = (size_t)n_wanted;
    r.n_frames = (size_t)n_frames;
    if (!status)
        status = show(&r, argv + optind, (size_t)(argc - optind));
    fini(&r);
    return status;
}
