/* SPDX-License-Identifier: MIT */
/*
 * cli/check.c - `deltaprof check`: a budget for growth, for CI.
 *
 * A heap profile may contain the exact number of bytes that its process allocated. If both sides have it, and no filter
 * is used, these numbers are compared. Otherwise sums of samples are compared, which vary by chance: a block of s bytes
 * that is sampled with probability p adds a variance of s^2 (1 - p) / p to a sum. A budget is broken if the growth
 * reaches it and is more than CERTAIN standard deviations, so that it is not chance.
 */
#include "cli/cli.h"
#include "cli/growth.h"
#include "print/print.h"
#include "print/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CERTAIN 4.0 /* one in thirty thousand checks of equal programs is wrong */
/* from this part on a budget counts as exceeded: allocations at the start of a program dilute its growth */
#define REACHED 0.98
enum { STACKS_SHOWN = 3, FRAMES_SHOWN = 6 };

static const char about[] =
    "Compares two profiles, or two directories of profiles; each is read as top reads it. Exit status: 0 if NEW has\n"
    "no more than the budget --max-growth allows; 1 if it has more, and the three stacks that grew most are shown;\n"
    "2 for wrong options, or input that cannot be read.\n"
    "\n"
    "Without --type, the type is alloc_space for heap profiles, and delay for others. The total of alloc_space is\n"
    "exact, because heap profiles have it in addition to their samples. Totals of other types are estimates, and so\n"
    "are all totals with --label, --focus, --ignore, --hide or --at. An estimated total counts as grown only if the\n"
    "growth is more than the sampling explains. All values of profiles that were made with heap_rate=1 are exact.\n"
    "\n"
    "  --max-growth N%   the budget: NEW may have up to N % more than OLD. It fails from 98 % of the budget on,\n"
    "                    because allocations at the start of a program dilute growth. 0: no growth at "
    "all\n" DP_QUERY_HELP_TYPE DP_QUERY_HELP_LABEL DP_QUERY_HELP_STACKS DP_QUERY_HELP_AT DP_QUERY_HELP_INHERITED
        DP_QUERY_HELP_LIMIT;

struct side {
    double total, variance;
    bool is_exact;
};

static struct side measure(struct dp_query *v)
{
    const struct dp_model *m = &v->merge.model;
    struct side side = {.is_exact = false};
    int objects = -1;
    double rate = (double)v->merge.header.period;
    for (size_t i = 0; i < m->types.n; i++) {
        const char *name = dp_model_text(m, m->types.at[i].type), *space = dp_query_type(v);
        size_t n = strcspn(name, "_");
        if (!strcmp(name + n, "_objects") && !strncmp(name, space, n + 1) && !strcmp(space + n, "_space"))
            objects = (int)i;
    }
    for (uint32_t row = 0; row < m->rows.n; row++) {
        double value = (double)dp_query_value(v, row);
        if (!value || dp_query_row(v, row) <= 0)
            continue;
        double n = objects < 0 ? 0 : (double)v->merge.values.at[row * m->types.n + (size_t)objects];
        side.total += value;
        if (n > 0 && rate > 1) { /* n blocks of value / n bytes each */
            double size = value / n, p = -expm1(-size / rate);
            side.variance += n * size * size * (1 - p) / p;
        }
    }
    bool is_filtered = v->n_labels || v->has_filter[0] || v->has_filter[1] || v->has_filter[2] || v->at_text;
    if (v->allocated > 0 && !strcmp(dp_query_type(v), "alloc_space") && !is_filtered)
        side = (struct side){.total = (double)v->allocated, .is_exact = true};
    return side;
}

/* Prints the result. Returns whether the budget is broken. */
static bool judge(struct dp_query *old_view, struct dp_query *new_view, double percent)
{
    struct side old = measure(old_view), new = measure(new_view);
    char before[32], after[32];
    const char *unit = dp_query_unit(new_view);
    if (old.is_exact != new.is_exact) { /* compare samples with samples */
        old_view->allocated = new_view->allocated = 0;
        old = measure(old_view);
        new = measure(new_view);
    }
    double growth = new.total - old.total, sd = sqrt(old.variance + new.variance);
    double relative = old.total > 0 ? 100 * growth / old.total : growth > 0 ? INFINITY : 0;
    bool reaches = growth > 0 && relative >= REACHED * percent, is_sure = growth > CERTAIN * sd;
    dp_print_unit(before, sizeof before, (int64_t)old.total, unit);
    dp_print_unit(after, sizeof after, (int64_t) new.total, unit);
    printf("%s: %s -> %s, %+.2f%%, budget %g%%: %s\n", dp_query_type(new_view), before, after, relative, percent,
           reaches && is_sure ? "over budget" : "passed");
    if (reaches && !is_sure)
        printf("The growth is not sure: sampling alone makes up to %.2f%% of difference. heap_rate=1 is exact.\n",
               100 * CERTAIN * sd / fmax(old.total, 1));
    return reaches && is_sure;
}

static int check(struct dp_query *old, struct dp_query *new, char **paths, double percent)
{
    struct dp_cli_growth g = {.n_files = 0};
    if (!new->type_name) /* the first of these types that a file has */
        new->preferred = old->preferred = "alloc_space";
    int status = dp_cli_growth_pair(&g, old, new, paths);
    bool is_broken = !status && judge(old, new, percent);
    if (is_broken)
        dp_cli_growth_print(&g, dp_query_unit(new), STACKS_SHOWN, FRAMES_SHOWN);
    dp_cli_growth_fini(&g);
    if (!status)
        status = dp_print_flush("check");
    return status ? DP_EXIT_USAGE : is_broken ? DP_EXIT_FAILED : 0;
}

static int take_percent(double *percent)
{
    char *end;
    *percent = strtod(optarg, &end);
    end += *end == '%';
    if (end != optarg && !*end && *percent >= 0 && isfinite(*percent))
        return 0;
    dp_print_error("check", "--max-growth %s is not a percentage", optarg);
    return DP_EXIT_USAGE;
}

int dp_cli_check(int argc, char **argv)
{
    static const struct option options[] = {{"max-growth", required_argument, NULL, 'g'}, DP_QUERY_OPTIONS};
    struct dp_query old, new;
    double percent = -1;
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_query_files_init();
    int status = dp_query_init(&new, "check", argc) ? DP_EXIT_USAGE : 0;
    for (int option; !status && (option = getopt_long(argc, argv, ":", options, NULL)) != -1;)
        status = option == 'g' ? take_percent(&percent) : dp_query_option(&new, argv, option);
    if (!status && new.json) {
        dp_print_error("check", "no --json: the exit status is the result");
        status = DP_EXIT_USAGE;
    }
    if (!status && (argc - optind != 2 || percent < 0)) {
        dp_print_error("check", "%s: deltaprof check --max-growth N%% OLD NEW",
                       percent < 0 ? "no budget given" : "two profiles needed");
        status = DP_EXIT_USAGE;
    }
    new.strict = true;
    dp_query_same(&old, &new);
    if (!status)
        status = check(&old, &new, argv + optind, percent);
    dp_query_same_fini(&old);
    dp_query_fini(&new);
    return status;
}
