/* SPDX-License-Identifier: MIT */
/*
 * cli/leaks.c - `deltaprof leaks`: lists the stacks that probably leak.
 *
 * A stack begins at the first frame of the user's own code: stacks that differ only in library frames below it are the
 * same. Stacks without such a frame belong to libraries; their one-time allocations are counted together. The same
 * stack in several processes is one leak.
 */
#include "cli/cli.h"
#include "cli/heading.h"
#include "print/json.h"
#include "print/print.h"
#include "print/units.h"
#include "query/evidence.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NAME_COLUMN = 4, STACK_SHOWN = 8 };

static const char about[] =
    "Says which stacks leak, of a directory of heap profiles: whose memory in use grows from tick to tick, more than\n"
    "chance makes, and goes on growing in the second half of the time. Caches that filled up, tables that were built\n"
    "and a load that rose are none; a data set that only grows looks like a leak and is called one. Stacks begin at\n"
    "the first function of the program's own code. At least 4 ticks are needed; of a shorter run, what was allocated\n"
    "again and again, never freed, and is left at exit is told.\n\n"
    "  -n N              how many leaks (default 10; 0: all)\n"
    "  --confidence N    the least confidence that is told, in percent (default 50)\n"
    "  --depth N         how many functions of a stack (default 8; 0: all)\n" DP_QUERY_HELP;

struct leak {
    uint32_t stack, row; /* row: of the model, one that has the stack */
    size_t n_own;
    double bytes, bytes_per_hour, confidence;
    int64_t since_ns;
    size_t n_processes;
    bool is_left; /* known only from the end of the process */
    double row_bytes;
};

struct tally {
    double bytes;
    size_t n;
};

struct report {
    struct dp_query view;
    struct dp_query_series series;
    double least;
    size_t n_wanted, n_frames;
    DP_VEC(struct leak) leaks;
    DP_VEC(uint32_t) of_stack; /* leak + 1 */
    double in_use;
    struct tally filled, steady, libraries;
    struct leak closest; /* the most suspicious of the others */
};

/* ---- judging ---------------------------------------------------------------------------------------------------- */

static struct leak *leak_of(struct report *r, const struct dp_query_curve *curve)
{
    while (r->of_stack.n <= curve->stack) {
        uint32_t *fresh = dp_vec_push(&r->of_stack);
        if (!fresh)
            return NULL;
        *fresh = 0;
    }
    uint32_t *known = &r->of_stack.at[curve->stack];
    if (!*known) {
        struct leak *fresh = dp_vec_push(&r->leaks);
        if (!fresh)
            return NULL;
        *fresh = (struct leak){.stack = curve->stack, .row_bytes = -1};
        *known = (uint32_t)r->leaks.n;
    }
    return &r->leaks.at[*known - 1];
}

static void add(struct leak *leak, const struct dp_query_curve *curve, const struct dp_query_evidence *e, double bytes)
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
        leak->n_own = curve->n_own;
    }
}

static int judge(struct report *r)
{
    bool all_ended = true;
    for (size_t i = 0; i < r->series.processes.n; i++)
        all_ended &= r->series.processes.at[i].ended;
    for (size_t i = 0; i < r->series.curves.n; i++) {
        const struct dp_query_curve *curve = &r->series.curves.at[i];
        const struct dp_query_process *process = &r->series.processes.at[curve->process];
        struct dp_query_evidence e = dp_query_evidence_of(process, curve);
        double bytes = process->n_points ? curve->bytes[process->n_points - 1] : curve->end_bytes;
        if (e.verdict == DP_QUERY_LEFT)
            bytes = curve->end_bytes;
        if (all_ended || !process->ended) /* memory of an ended process is not in use */
            r->in_use += bytes;
        bool is_leak = e.confidence >= r->least && (e.verdict == DP_QUERY_LEFT || e.bytes_per_hour > 0);
        if (is_leak) {
            struct leak *leak = leak_of(r, curve);
            if (!leak)
                return -ENOMEM;
            add(leak, curve, &e, bytes);
            continue;
        }
        if (e.confidence > r->closest.confidence) {
            r->closest = (struct leak){.stack = curve->stack, .row_bytes = -1};
            add(&r->closest, curve, &e, bytes);
        }
        struct tally *tally = curve->n_own == DP_QUERY_NO_OWN                              ? &r->libraries
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
    const struct leak *x = a, *y = b;
    double left = x->confidence * fmax(x->bytes_per_hour, x->is_left ? x->bytes : 0);
    double right = y->confidence * fmax(y->bytes_per_hour, y->is_left ? y->bytes : 0);
    if (left != right)
        return left > right ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* ---- output ----------------------------------------------------------------------------------------------------- */

/* Fills view.stack with the frames of a leak; the first of them. */
static int frames_of(struct report *r, const struct leak *leak, size_t *from)
{
    int shown = dp_query_row(&r->view, leak->row);
    *from = leak->n_own < r->view.stack.n ? leak->n_own : 0;
    return shown < 0 ? shown : 0;
}

static void json_frame(const struct dp_query *v, uint32_t frame, const char *separator)
{
    const struct dp_naming_frame *f = &v->frames.at.at[frame];
    dp_print_json_text(separator, "function", dp_naming_frames_text(&v->frames, f->name));
    dp_print_json_text(",", "file", f->file ? dp_naming_frames_text(&v->frames, f->file) : "");
    dp_print_json_number(",", "line", f->line);
}

static int print_json(struct report *r, size_t n)
{
    const struct dp_query *v = &r->view;
    dp_print_json_number("{", "in_use_bytes", (int64_t)r->in_use);
    fputs(",\"leaks\":[", stdout);
    for (size_t i = 0; i < n; i++) {
        const struct leak *leak = &r->leaks.at[i];
        size_t from;
        if (frames_of(r, leak, &from))
            return -ENOMEM;
        json_frame(v, v->stack.at[from], i ? ",\n{" : "\n{");
        dp_print_json_number(",", "bytes", (int64_t)leak->bytes);
        dp_print_json_number(",", "bytes_per_hour", (int64_t)leak->bytes_per_hour);
        dp_print_json_fraction(",", "confidence", leak->confidence);
        dp_print_json_number(",", "since_ns", leak->since_ns);
        fputs(",\"stack\":[", stdout);
        for (size_t j = from; j < v->stack.n; j++) {
            json_frame(v, v->stack.at[j], j > from ? ",{" : "{");
            putchar('}');
        }
        fputs("]}", stdout);
    }
    puts("]}");
    return 0;
}

static void print_stack(const struct report *r, size_t from)
{
    const struct dp_query *v = &r->view;
    size_t n_columns = dp_print_columns(), n = v->stack.n - from;
    for (size_t i = 0; i < n; i++) /* skips the frames that call main */
        if (!strcmp(dp_naming_frames_text(&v->frames, v->frames.at.at[v->stack.at[from + i]].name), "main"))
            n = i + 1;
    size_t n_shown = r->n_frames && r->n_frames < n ? r->n_frames : n;
    for (size_t i = from; i < from + n_shown; i++) {
        const struct dp_naming_frame *f = &v->frames.at.at[v->stack.at[i]];
        const char *file = f->file ? dp_naming_frames_text(&v->frames, f->file) : "", *slash = strrchr(file, '/');
        char place[256] = "";
        if (*file)
            snprintf(place, sizeof place, "  %.200s:%lld", slash ? slash + 1 : file, (long long)f->line);
        size_t n_used = NAME_COLUMN + strlen(place), room = n_columns > n_used + 20 ? n_columns - n_used : 20;
        printf("%*s", NAME_COLUMN, "");
        dp_print_name(stdout, dp_naming_frames_text(&v->frames, f->name), n_columns ? room : 0);
        dp_print_name(stdout, place, 0);
        putchar('\n');
    }
    if (n_shown < n)
        printf("%*s(%zu more)\n", NAME_COLUMN, "", n - n_shown);
}

static int print_leak(struct report *r, const struct leak *leak)
{
    char bytes[32], rate[32], since[64] = "";
    time_t seconds = (time_t)(leak->since_ns / 1000000000);
    struct tm tm;
    size_t from;
    dp_print_unit(bytes, sizeof bytes, (int64_t)leak->bytes, "bytes");
    dp_print_unit(rate, sizeof rate, (int64_t)leak->bytes_per_hour, "bytes");
    if (leak->since_ns && localtime_r(&seconds, &tm))
        strftime(since, sizeof since, " since %H:%M:%S", &tm);
    if (leak->is_left)
        printf("%s left at exit, never freed, confidence %.0f%%\n", bytes, 100 * leak->confidence);
    else
        printf("%s in use, %s more an hour%s, confidence %.0f%%\n", bytes, rate, since, 100 * leak->confidence);
    if (leak->n_processes > 1)
        printf("%*sin %zu processes\n", NAME_COLUMN, "", leak->n_processes);
    if (frames_of(r, leak, &from))
        return -ENOMEM;
    print_stack(r, from);
    return 0;
}

static void print_tally(const struct tally *tally, const char *words)
{
    char bytes[32];
    dp_print_unit(bytes, sizeof bytes, (int64_t)tally->bytes, "bytes");
    if (tally->n)
        printf("%10s in %zu stack%s %s\n", bytes, tally->n, tally->n == 1 ? "" : "s", words);
}

static void print_heading(const struct report *r)
{
    char bytes[32], duration[32];
    size_t most = 0;
    int64_t longest_ns = 0;
    for (size_t i = 0; i < r->series.processes.n; i++) {
        const struct dp_query_process *p = &r->series.processes.at[i];
        most = p->n_points > most ? p->n_points : most;
        if (p->n_points && p->times_ns[p->n_points - 1] - p->start_ns > longest_ns)
            longest_ns = p->times_ns[p->n_points - 1] - p->start_ns;
    }
    dp_print_unit(bytes, sizeof bytes, (int64_t)r->in_use, "bytes");
    dp_print_unit(duration, sizeof duration, longest_ns, "nanoseconds");
    if (r->series.processes.n == 1 && *r->series.processes.at[0].name)
        printf("%s: ", r->series.processes.at[0].name);
    else
        printf("%zu processes: ", r->series.processes.n);
    printf("%s in use, %zu file%s, %s\n", bytes, r->view.paths.n, r->view.paths.n == 1 ? "" : "s", duration);
    if (most < DP_QUERY_TICKS_NEEDED)
        printf("Too few ticks to see growth: %zu, of %d needed. A shorter interval makes more:\n"
               "deltaprof run -o interval=1s -- COMMAND\n",
               most, DP_QUERY_TICKS_NEEDED);
}

static int print_all(struct report *r, size_t n)
{
    int err = 0;
    print_heading(r);
    if (r->leaks.n)
        printf("%zu leak%s\n\n", r->leaks.n, r->leaks.n == 1 ? "" : "s");
    else
        puts("No leak: nothing grows and goes on growing.");
    for (size_t i = 0; i < n && !err; i++) {
        printf("%2zu. ", i + 1);
        err = print_leak(r, &r->leaks.at[i]);
        putchar('\n');
    }
    if (n < r->leaks.n)
        printf("%zu more (-n 0 shows all)\n", r->leaks.n - n);
    if (!r->leaks.n && r->closest.confidence >= 0.1 && !err) {
        fputs("Closest to one: ", stdout);
        err = print_leak(r, &r->closest);
    }
    if (r->filled.n + r->steady.n + r->libraries.n)
        puts("Not leaks:");
    print_tally(&r->filled, "that grew and stopped (caches, tables)");
    print_tally(&r->steady, "that stay as they are, or go up and down");
    print_tally(&r->libraries, "of libraries");
    dp_cli_heading_losses(&r->view);
    return err;
}

/* ---- the verb --------------------------------------------------------------------------------------------------- */

static int show(struct report *r, char **paths, size_t n_paths)
{
    struct dp_query *v = &r->view;
    int status = dp_query_paths_add_all(&v->paths, v->verb, paths, n_paths);
    if (!status)
        status = dp_query_paths_choose(&v->paths, v->verb, v->kind, "inuse_space");
    if (!status)
        status = dp_query_series_read(&r->series);
    if (!status && !r->series.has_inuse) {
        dp_print_error("leaks", "%s: no heap profile: it has no sample type inuse_space", v->paths.at[0]);
        status = DP_EXIT_FAILED;
    }
    if (status)
        return status;
    int err = judge(r);
    if (!err && r->leaks.n)
        qsort(r->leaks.at, r->leaks.n, sizeof *r->leaks.at, by_weight);
    size_t n = r->n_wanted && r->n_wanted < r->leaks.n ? r->n_wanted : r->leaks.n;
    if (!err)
        err = v->json ? print_json(r, n) : print_all(r, n);
    if (err) {
        dp_print_error("leaks", "out of memory");
        return DP_EXIT_FAILED;
    }
    return dp_print_flush("leaks");
}

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
    struct report r = {.n_frames = 0};
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
    r.series.view = &r.view;
    r.series.from_own = true;
    r.least = percent / 100;
    r.n_wanted = (size_t)n_wanted;
    r.n_frames = (size_t)n_frames;
    if (!status)
        status = show(&r, argv + optind, (size_t)(argc - optind));
    dp_vec_fini(&r.leaks);
    dp_vec_fini(&r.of_stack);
    dp_query_series_fini(&r.series);
    dp_query_fini(&r.view);
    return status;
}
