/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/leaks.c - `deltaprof leaks`: lists the stacks that probably leak.
 *
 * A stack begins at the first frame of the user's own code: stacks that differ only in library frames below it are the
 * same. Stacks without such a frame belong to libraries; their one-time allocations are counted together. The same
 * stack in several processes is one leak.
 */
#include "tool/cli/cli.h"
#include "tool/cli/live.h"
#include "tool/summary/leaks.h"
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
    "  --confidence N    show leaks of at least this confidence, in percent (default 70)\n"
    "  --depth N         how many functions of each stack (default 8; 0: all)\n" DP_QUERY_HELP_LABEL
        DP_QUERY_HELP_STACKS DP_QUERY_HELP_INHERITED DP_QUERY_HELP_JSON
    "                    `open`: what cannot be told yet and what it needs, as of summary; a stack with the verdict\n"
    "                    `open` may grow\n" DP_QUERY_HELP_LIMIT DP_COLOUR_HELP;

/* ---- the verb --------------------------------------------------------------------------------------------------- */

static int show(struct dp_summary_leaks *r, char **paths, size_t n_paths)
{
    int status = dp_summary_leaks_find(r, paths, n_paths);
    if (status)
        return status;
    size_t n = r->n_wanted && r->n_wanted < r->judge.leaks.n ? r->n_wanted : r->judge.leaks.n;
    if (r->view.json ? dp_summary_leaks_json(r, n) : dp_summary_leaks_print(r, n)) {
        dp_query_print_error("leaks", "out of memory");
        return DP_EXIT_FAILED;
    }
    return dp_query_print_flush(r->view.verb);
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
    struct dp_summary_leaks r = {.n_frames = 0};
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
        status = dp_cli_live_begin("leaks", argv + optind, argc - optind);
    if (!status)
        status = show(&r, argv + optind, (size_t)(argc - optind));
    dp_summary_leaks_fini(&r);
    return status;
}
