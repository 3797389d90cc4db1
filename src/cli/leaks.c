/* SPDX-License-Identifier: MIT */
/*
 * cli/leaks.c - `deltaprof leaks`: lists the stacks that probably leak.
 *
 * A stack begins at the first frame of the user's own code: stacks that differ only in library frames below it are the
 * same. Stacks without such a frame belong to libraries; their one-time allocations are counted together. The same
 * stack in several processes is one leak.
 */
#include "cli/cli.h"
#include "cli/leaks.h"
#include "print/print.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_SHOWN = 8 };

static const char about[] =
    "Shows the stacks that leak, from heap profiles of successive ticks. A stack leaks if its memory in use grows\n"
    "more than chance and a higher load explain, and if the growth does not end. The first quarter of the time is\n"
    "left out, because all programs grow when they start. A cache that filled up, a table that was built and a load\n"
    "that rose are no leaks. A data set that only grows cannot be distinguished from a leak and is shown as one.\n"
    "Stacks begin at the first function of the program's own code.\n"
    "\n"
    "At least 4 ticks are needed, and about 15 for a sure result. For a shorter run, the stacks are shown that\n"
    "allocated again and again, freed almost nothing, and still had the memory in use at exit.\n"
    "\n"
    "  -n N              how many leaks (default 10; 0: all)\n"
    "  --confidence N    show leaks of at least this confidence, in percent (default 50)\n"
    "  --depth N         how many functions of each stack (default 8; 0: all)\n" DP_QUERY_HELP_LABEL
        DP_QUERY_HELP_STACKS DP_QUERY_HELP_INHERITED DP_QUERY_HELP_JSON DP_QUERY_HELP_LIMIT;

/* ---- judging ---------------------------------------------------------------------------------------------------- */

static struct dp_cli_leak *leak_of(struct dp_cli_leaks *r, const struct dp_query_curve *curve)
{
    while (r->of_stack.n <= curve->stack) {
        uint32_t *fresh = dp_vec_push(&r->of_stack);
        if (!fresh)
            return NULL;
        *fresh = 0;
    }
    uint32_t *known = &r->of_stack.at[curve->stack];
    if (!*known) {
        struct dp_cli_leak *fresh = dp_vec_push(&r->leaks);
        if (!fresh)
            return NULL;
        *fresh = (struct dp_cli_leak){.stack = curve->stack, .row_bytes = -1};
        *known = (uint32_t)r->leaks.n;
    }
    return &r->leaks.at[*known - 1];
}

static void add(struct dp_cli_leak *leak, const struct dp_query_curve *curve, const struct dp_query_evidence *e,
                double bytes)
{
    leak->bytes += bytes;
    leak->bytes_per_hour += e->bytes_per_hour;
    leak->confidence = fmax(leak->confidence, e->confidence);
    leak->is_left |= e->verdict == DP_QUERY_LEFT;
    leak->n_processes++;
    if (!leak->since_ns || e->since_ns < leak->since_ns)
        leak->since_ns = e->since_ns;
    if (bytes > leak->row_bytes) {
        leak->row_bytes = bytes;
        leak->row = curve->row;
        leak->evidence = *e;
        leak->n_own = curve->n_own;
    }
}

static int judge(struct dp_cli_leaks *r)
{
    bool all_ended = true;
    for (size_t i = 0; i < r->series.processes.n; i++)
        all_ended &= r->series.processes.at[i].ended;
    for (size_t i = 0; i < r->series.curves.n; i++) {
        const struct dp_query_curve *curve = &r->series.curves.at[i];
        struct dp_query_process *process = &r->series.processes.at[curve->process];
        process->growth += dp_query_evidence_growth(process, curve);
    }
    for (size_t i = 0; i < r->series.curves.n; i++) {
        const struct dp_query_curve *curve = &r->series.curves.at[i];
        const struct dp_query_process *process = &r->series.processes.at[curve->process];
        struct dp_query_evidence e = dp_query_evidence_of(process, curve, process->growth);
        double bytes = process->n_points ? curve->bytes[process->n_points - 1] : curve->end_bytes;
        double before = bytes, in_use = process->at_exit ? curve->end_bytes : bytes; /* as `top` shows it */
        if (e.verdict == DP_QUERY_LEFT)
            bytes = curve->end_bytes;
        else if (process->n_points < DP_QUERY_TICKS_NEEDED)
            bytes = in_use;
        if (all_ended || !process->ended) /* memory of an ended process is not in use */
            r->in_use += in_use, r->in_use_before += before;
        bool is_leak = e.confidence >= r->least && (e.verdict == DP_QUERY_LEFT || e.bytes_per_hour > 0);
        if (is_leak) {
            struct dp_cli_leak *leak = leak_of(r, curve);
            if (!leak)
                return -ENOMEM;
            add(leak, curve, &e, bytes);
            continue;
        }
        if (e.confidence > r->closest.confidence) {
            r->closest = (struct dp_cli_leak){.stack = curve->stack, .row_bytes = -1};
            add(&r->closest, curve, &e, bytes);
        }
        struct dp_cli_tally *tally = curve->n_own == DP_QUERY_NO_OWN                              ? &r->libraries
                                     : e.verdict == DP_QUERY_FILLED || e.verdict == DP_QUERY_ONCE ? &r->filled
                                                                                                  : &r->steady;
        tally->n += bytes > 0;
        tally->bytes += bytes;
    }
    return 0;
}

/* Sorts by bytes per hour times confidence. */
static int by_weight(const void *a, const void *b)
{
    const struct dp_cli_leak *x = a, *y = b;
    double left = x->confidence * fmax(x->bytes_per_hour, x->is_left ? x->bytes : 0);
    double right = y->confidence * fmax(y->bytes_per_hour, y->is_left ? y->bytes : 0);
    if (left != right)
        return left > right ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* Reads the profiles, and puts the worst leak first. */
static int find(struct dp_cli_leaks *r, char **paths, size_t n_paths)
{
    struct dp_query *v = &r->view;
    v->argument = paths[0];
    int status = dp_query_paths_add_all(&v->paths, v->verb, paths, n_paths);
    if (!status)
        status = dp_query_paths_choose(&v->paths, v->verb, v->kind, "inuse_space");
    if (!status)
        status = dp_query_series_read(&r->series);
    if (!status && !r->series.has_inuse) {
        dp_print_error(v->verb, "%s: no heap profile: it has no sample type inuse_space", v->paths.at[0]);
        status = DP_EXIT_FAILED;
    }
    if (!status && judge(r)) {
        dp_print_error(v->verb, "out of memory");
        status = DP_EXIT_FAILED;
    }
    if (!status && r->leaks.n)
        qsort(r->leaks.at, r->leaks.n, sizeof *r->leaks.at, by_weight);
    return status;
}

static int show(struct dp_cli_leaks *r, char **paths, size_t n_paths)
{
    int status = find(r, paths, n_paths);
    if (status)
        return status;
    size_t n = r->n_wanted && r->n_wanted < r->leaks.n ? r->n_wanted : r->leaks.n;
    if (r->view.json ? dp_cli_leaks_json(r, n) : dp_cli_leaks_print(r, n)) {
        dp_print_error("leaks", "out of memory");
        return DP_EXIT_FAILED;
    }
    return dp_query_end(&r->view);
}

static void fini(struct dp_cli_leaks *r)
{
    dp_vec_fini(&r->leaks);
    dp_vec_fini(&r->of_stack);
    dp_query_series_fini(&r->series);
    dp_query_fini(&r->view);
}

/* ---- one sentence ----------------------------------------------------------------------------------------------- */

static void describe_worst(struct dp_cli_leaks_summary *to, struct dp_cli_leaks *r, struct dp_query_stacks *stacks)
{
    const struct dp_cli_leak *worst = &r->leaks.at[0];
    struct dp_query *v = &r->view;
    to->worst_bytes = (int64_t)worst->bytes;
    to->worst_per_hour = (int64_t)worst->bytes_per_hour;
    if (dp_query_row(v, worst->row) < 0 || !v->stack.n)
        return;
    size_t from = worst->n_own < v->stack.n ? worst->n_own : 0;
    const struct dp_naming_frame *f = &v->frames.at.at[v->stack.at[from]];
    const char *file = f->file ? dp_naming_frames_text(&v->frames, f->file) : "", *slash = strrchr(file, '/');
    snprintf(to->worst, sizeof to->worst, "%s", dp_naming_frames_text(&v->frames, f->name));
    if (*file && f->line > 0)
        snprintf(to->place, sizeof to->place, "%.200s:%lld", slash ? slash + 1 : file, (long long)f->line);
    to->stack = dp_query_stacks_add(stacks, v, from);
}

int dp_cli_leaks_summarize(struct dp_cli_leaks_summary *to, const char *verb, char **paths, size_t n_paths,
                           struct dp_query_stacks *stacks)
{
    struct dp_cli_leaks r = {.least = 0.5};
    *to = (struct dp_cli_leaks_summary){.stack = DP_STRINGS_NONE};
    int status = dp_query_init(&r.view, verb, 1);
    r.series.view = &r.view;
    r.series.from_own = true;
    if (!status)
        status = find(&r, paths, n_paths);
    for (size_t i = 0; i < r.series.processes.n && !status; i++)
        if (r.series.processes.at[i].n_points > to->n_ticks)
            to->n_ticks = r.series.processes.at[i].n_points;
    for (size_t i = 0; i < r.leaks.n && !status; i++)
        to->bytes += (int64_t)r.leaks.at[i].bytes;
    to->n_leaks = r.leaks.n;
    to->verdict = to->n_leaks                            ? DP_CLI_LEAKS_FOUND
                  : to->n_ticks >= DP_QUERY_TICKS_NEEDED ? DP_CLI_LEAKS_NONE
                                                         : DP_CLI_LEAKS_CANNOT_TELL;
    if (to->verdict == DP_CLI_LEAKS_CANNOT_TELL)
        snprintf(to->needs, sizeof to->needs,
                 "%zu tick%s, at least %d are needed: run it longer, or with a shorter interval", to->n_ticks,
                 to->n_ticks == 1 ? "" : "s", DP_QUERY_TICKS_NEEDED);
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
    dp_print_error("leaks", "%s %s is not a number from 0 to %.0f", option, optarg, most);
    return DP_EXIT_USAGE;
}

int dp_cli_leaks(int argc, char **argv)
{
    static const struct option options[] = {
        {"confidence", required_argument, NULL, 'c'}, {"depth", required_argument, NULL, 'd'}, DP_QUERY_OPTIONS};
    struct dp_cli_leaks r = {.n_frames = 0};
    double n_wanted = 10, percent = 50, n_frames = STACK_SHOWN;
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
        dp_print_error("leaks", "no profiles given: deltaprof leaks [OPTION]... PATH...");
        status = DP_EXIT_USAGE;
    }
    if (!status && (r.view.at_text || (r.view.type_name && strcmp(r.view.type_name, "inuse_space")))) {
        dp_print_error("leaks", "no %s: leaks looks at inuse_space of all ticks", r.view.at_text ? "--at" : "--type");
        status = DP_EXIT_USAGE;
    }
    r.series.view = &r.view;
    r.series.from_own = true;
    r.least = percent / 100;
    r.n_wanted = (size_t)n_wanted;
    r.n_frames = (size_t)n_frames;
    if (!status)
        status = show(&r, argv + optind, (size_t)(argc - optind));
    fini(&r);
    return status;
}
