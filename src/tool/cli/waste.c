/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/waste.c - `deltaprof waste`: which functions have memory in use that is not resident or only zeros, and what
 * malloc holds though it was freed.
 *
 * A process measures this with types=waste, or when its endpoint is asked for it. So a PID is asked first; else its
 * files are read, as they are for a directory.
 */
#include "tool/cli/cli.h"
#include "tool/cli/options.h"
#include "tool/summary/heading.h"
#include "tool/query/count.h"
#include "tool/query/json.h"
#include "tool/query/print.h"
#include "tool/query/units.h"
#include "tool/rss/rss.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char about[] =
    "Shows, by function, what of the memory in use is waste, and what malloc holds though the program freed it. PATH "
    "is\n"
    "a directory, a file or a glob of profiles that were written with types=waste. PID is a running process: one with\n"
    "listen= is asked for a profile of now, whatever its types are; else its newest files are read, from the "
    "directory\n"
    "to which it writes or from DIR.\n"
    "\n"
    "  in use      bytes that the program asked for and has not freed = resident + swapped + absent\n"
    "  resident    of that, in memory\n"
    "  swapped     in swap\n"
    "  absent      never written, or given back: costs nothing but address space\n"
    "  zeros       resident, but only zeros: whole cache lines, and the parts of lines at a block's ends: written too\n"
    "              early, too large, or never needed\n"
    "  pinned      free bytes that malloc cannot give back, because blocks of this function lie in the same pages\n"
    "\n"
    "Functions stand in the order of zeros + pinned: what a fix can save of resident memory. Sampled blocks stand for\n"
    "all. What malloc_trim would give back is not sampled: the chunks of glibc's heaps are followed one by one; "
    "jemalloc\n"
    "5 is asked what it holds. Other allocators (tcmalloc, mimalloc) do not tell.\n"
    "\n"
    "  --idle TIME       ask the process PID, which needs listen=, what it does not use for so long (1s to 1h): with "
    "a\n"
    "                    kernel that has soft-dirty bits the column idle, resident memory that is not written; with "
    "each\n"
    "                    kernel how much of all anonymous memory is neither read nor written\n"
    "  -n N              how many functions (default 20; 0: all)\n"
    "  --json            one JSON object; sizes are bytes\n" DP_QUERY_HELP_LABEL DP_QUERY_HELP_STACKS
    "  --at WHEN         memory in use at this time: end (default: now, and before the exit handlers of processes "
    "that\n"
    "                    ended), last (after them), or HH:MM:SS or YYYY-MM-DD HH:MM:SS\n";

/* The count's columns, in this order; the flat value is what is in use. */
enum { RESIDENT, SWAPPED, ZEROS, PINNED, OBJECTS, IDLE, N_COLUMNS }; /* the last is there on demand only */
static const char *const types[N_COLUMNS] = {"resident_space", "swapped_space", "zero_space",
                                             "pinned_space",   "inuse_objects", "idle_space"};
enum { HEADER_BYTES = 8 }; /* of a chunk of glibc's malloc, beside what rounding adds */

struct amounts {
    int64_t in_use, column[N_COLUMNS];
};

static int64_t absent_of(const struct amounts *a)
{
    return a->in_use - a->column[RESIDENT] - a->column[SWAPPED];
}

static struct amounts amounts_of(const struct dp_query_count *c, const struct dp_query_node *node)
{
    struct amounts a = {.in_use = node->flat};
    for (size_t i = 0; i < c->n_columns; i++)
        a.column[i] = dp_query_count_column(c, node, i);
    return a;
}

static struct amounts sum_nodes(const struct dp_query_count *c)
{
    struct amounts sum = {0};
    for (size_t n = 0; n < c->nodes.n; n++) {
        struct amounts a = amounts_of(c, &c->nodes.at[n]);
        dp_model_merge_sum(&sum.in_use, a.in_use);
        for (size_t i = 0; i < N_COLUMNS; i++)
            dp_model_merge_sum(&sum.column[i], a.column[i]);
    }
    return sum;
}

/* Why a profile that should have the types has none; NULL: they were not asked for. */
static const char *why_unknown(const struct dp_query *v)
{
    for (size_t i = 0; i < v->merge.header.comments.n; i++) {
        const char *text = dp_model_text(&v->merge.model, v->merge.header.comments.at[i]);
        if (!strncmp(text, DP_COMMENT_WASTE_UNKNOWN, strlen(DP_COMMENT_WASTE_UNKNOWN)))
            return text + strlen(DP_COMMENT_WASTE_UNKNOWN);
    }
    return NULL;
}

/* Finds the sample types. 0, or a status after one line. */
static int choose_columns(struct dp_query_count *c)
{
    dp_query_count_choose(c, types, N_COLUMNS);
    if (c->n_columns >= IDLE)
        return 0;
    const char *why = why_unknown(c->view);
    if (why)
        dp_query_print_error("waste", "%s: what of the memory in use is resident is not known: %s", c->view->argument,
                             why);
    else
        dp_query_print_error(
            "waste",
            "%s: no profile tells what of the memory in use is resident; the program needs types=waste, "
            "or listen= to be asked by its PID",
            c->view->argument);
    return DP_EXIT_FAILED;
}

static bool has_idle(const struct dp_query_count *c)
{
    return c->n_columns > IDLE && c->view->free.idle_ms;
}

/* What a fix can save of resident memory. */
static int64_t waste_of(const struct dp_query_count *c, const struct dp_query_node *node)
{
    return dp_query_count_column(c, node, ZEROS) + dp_query_count_column(c, node, PINNED);
}

/* Functions that only call others, which have memory in use. */
static void drop_callers(struct dp_query_count *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->nodes.n; i++)
        if (c->nodes.at[i].flat)
            c->nodes.at[n++] = c->nodes.at[i];
    c->nodes.n = n;
}

static int by_waste(const void *a, const void *b, void *count)
{
    const struct dp_query_node *x = a, *y = b;
    int64_t of_x = waste_of(count, x), of_y = waste_of(count, y);
    return of_x != of_y ? (of_x < of_y) - (of_x > of_y) : (x->flat < y->flat) - (x->flat > y->flat);
}

/* ---- output ----------------------------------------------------------------------------------------------------- */

static const char *text_of(char text[32], int64_t bytes)
{
    dp_query_print_unit(text, 32, bytes, "bytes");
    return text;
}

/* What the allocator adds to the blocks in use: what their sizes are rounded up by, and headers of glibc's malloc. */
static int64_t overhead_of(const struct dp_query_count *c, const struct amounts *sum)
{
    const struct dp_query_free *f = &c->view->free;
    int64_t headers = f->heap_bytes ? sum->column[OBJECTS] * HEADER_BYTES : 0;
    return f->heap_bytes || f->n_jemalloc ? f->rounding_bytes + headers : 0;
}

static void print_json_amounts(const struct dp_query_count *c, const struct amounts *a)
{
    dp_query_print_json_number(",", "in_use_bytes", a->in_use);
    dp_query_print_json_number(",", "resident_bytes", a->column[RESIDENT]);
    dp_query_print_json_number(",", "swapped_bytes", a->column[SWAPPED]);
    dp_query_print_json_number(",", "absent_bytes", absent_of(a));
    dp_query_print_json_number(",", "zero_bytes", a->column[ZEROS]);
    dp_query_print_json_number(",", "pinned_bytes", a->column[PINNED]);
    if (has_idle(c))
        dp_query_print_json_number(",", "idle_bytes", a->column[IDLE]);
}

static void print_json(const struct dp_query_count *c, size_t n_shown)
{
    const struct dp_query_free *f = &c->view->free;
    struct amounts sum = sum_nodes(c);
    dp_query_print_json_text("{", "unit", "bytes");
    print_json_amounts(c, &sum);
    dp_query_print_json_number(",", "zeros_unknown_bytes", f->zeros_unknown_bytes);
    dp_query_print_json_number(",\"malloc\":{", "trim_bytes", f->trim_bytes);
    dp_query_print_json_number(",", "pinned_bytes", f->pinned_bytes);
    dp_query_print_json_number(",", "arena_bytes", f->arena_bytes);
    dp_query_print_json_number(",", "arenas", f->n_arenas);
    dp_query_print_json_number(",", "heap_bytes", f->heap_bytes);
    dp_query_print_json_number(",", "unknown_bytes", f->unknown_bytes);
    dp_query_print_json_number(",", "overhead_bytes", overhead_of(c, &sum));
    dp_query_print_json_number(",", "top_bytes", f->top_bytes);
    dp_query_print_json_number(",", "cached_bytes", f->cached_bytes);
    dp_query_print_json_number(",", "jemalloc", f->n_jemalloc);
    dp_query_print_json_number(",", "decay_bytes", f->decay_bytes);
    dp_query_print_json_number(",", "held_bytes", f->held_bytes);
    if (f->idle_ms) {
        dp_query_print_json_number("},\"not_used\":{", "ms", f->idle_ms);
        dp_query_print_json_number(",", "anonymous_bytes", f->idle_resident_bytes);
        dp_query_print_json_number(",", "untouched_bytes", f->untouched_bytes);
    }
    fputs("},\"rows\":[", stdout);
    for (size_t i = 0; i < n_shown; i++) {
        struct amounts a = amounts_of(c, &c->nodes.at[i]);
        dp_query_print_json_text(i ? ",\n{" : "\n{", "name", dp_strings_at(&c->names, c->nodes.at[i].name));
        print_json_amounts(c, &a);
        putchar('}');
    }
    puts("]}");
}

/* Which functions pin most, each with the share of its pages that is in use. */
static void print_pins(const struct dp_query_count *c)
{
    const struct dp_query_node *most = NULL;
    for (size_t i = 0; i < c->nodes.n; i++)
        if (!most || dp_query_count_column(c, &c->nodes.at[i], PINNED) > dp_query_count_column(c, most, PINNED))
            most = &c->nodes.at[i];
    int64_t pinned = most ? dp_query_count_column(c, most, PINNED) : 0;
    if (!pinned)
        return;
    fputs(", most by ", stdout);
    dp_query_print_name(stdout, dp_strings_at(&c->names, most->name), 0);
    printf(" (%.0f%% live)", dp_summary_percent(most->flat, most->flat + pinned));
}

/* All that is free in glibc's heaps. */
static int64_t most_of(const struct dp_query_free *f)
{
    return f->trim_bytes + f->pinned_bytes + f->top_bytes + f->cached_bytes;
}

/*
 * What can be done about memory that glibc's malloc holds. What settings or other allocators would give back depends on
 * how they would have placed the blocks, so only bounds are told: of settings what is free, of another allocator what
 * this one adds to blocks, too.
 */
static void print_glibc(const struct dp_query_count *c, const struct amounts *sum)
{
    const struct dp_query_free *f = &c->view->free;
    char trim[32], pinned[32], arenas[32], unknown[32], most[32], overhead[32];
    printf("malloc_trim(0) would give back %s. ", text_of(trim, f->trim_bytes));
    printf("%s are free in pages that also have blocks in use", text_of(pinned, f->pinned_bytes));
    print_pins(c);
    puts(".");
    printf("Settings of malloc can save at most %s more: all else that is free in the heaps.",
           text_of(most, most_of(f) - f->trim_bytes));
    if (overhead_of(c, sum) > 0)
        printf(" Another allocator can also save\nof the %s by which malloc rounds blocks in use up, with headers.",
               text_of(overhead, overhead_of(c, sum)));
    putchar('\n');
    printf("MALLOC_ARENA_MAX=1 can save at most %s: what is free in %lld arenas and in caches of threads.\n",
           text_of(arenas, f->arena_bytes + f->cached_bytes), (long long)f->n_arenas);
    if (f->unknown_bytes * 20 > f->heap_bytes)
        printf("%s of malloc's heaps could not be followed.\n", text_of(unknown, f->unknown_bytes));
}

/* What decay gives back is a sum of jemalloc's own counts. */
static void print_jemalloc(const struct dp_query_count *c)
{
    const struct dp_query_free *f = &c->view->free;
    char decay[32], pinned[32], cached[32];
    printf("jemalloc holds %s of pages without blocks, which decay would give back", text_of(decay, f->decay_bytes));
    if (f->n_never_decay)
        fputs(": it is off (dirty_decay_ms:-1)", stdout);
    else if (f->n_background < f->n_jemalloc)
        fputs(", but only while the program allocates or frees (background_thread:true decays without)", stdout);
    printf(". %s are free in slabs that also have blocks in use", text_of(pinned, f->pinned_bytes));
    print_pins(c);
    printf(". %s are free in caches of threads.\n", text_of(cached, f->cached_bytes));
}

/* tcmalloc uses brk, too, but its blocks are no chain of chunks. */
static bool is_glibc(const struct dp_query_free *f)
{
    return f->heap_bytes && f->unknown_bytes * 2 <= f->heap_bytes;
}

static void print_free(const struct dp_query_count *c, const struct amounts *sum)
{
    const struct dp_query_free *f = &c->view->free;
    char held[32], zeros[32];
    if (f->n_jemalloc)
        print_jemalloc(c);
    else if (is_glibc(f))
        print_glibc(c, sum);
    else
        puts(
            "Cannot tell what the allocator could give back: it is not glibc's malloc, nor a jemalloc that was asked.");
    if (!f->n_jemalloc && !is_glibc(f) && f->held_bytes)
        printf("It holds %s beyond what is in use.\n", text_of(held, f->held_bytes));
    if (f->zeros_unknown_bytes)
        printf("%s of resident memory were not read: zeros are a lower bound.\n",
               text_of(zeros, f->zeros_unknown_bytes));
}

/* What was not used while the process was asked. */
static void print_idle(const struct dp_query_count *c)
{
    const struct dp_query_free *f = &c->view->free;
    char untouched[32], all[32], time[32];
    if (!f->idle_ms) {
        puts("What is not used cannot be told: the process did not answer in time, or may not clear the kernel's notes "
             "of\n"
             "which pages are used (/proc/self/clear_refs).");
        return;
    }
    dp_query_print_unit(time, sizeof time, f->idle_ms * 1000000, "nanoseconds");
    printf("For %s, %s or more of the %s of anonymous memory were neither read nor written.", time,
           text_of(untouched, f->untouched_bytes), text_of(all, f->idle_resident_bytes));
    puts(has_idle(c) ? " Idle: not written, at least;\nwhat is only read counts as idle."
                     : "\nWhich functions allocated it is not known: this kernel has no soft-dirty bits "
                       "(CONFIG_MEM_SOFT_DIRTY).");
}

static void print_row(const struct dp_query_count *c, const struct amounts *a)
{
    char text[32];
    const int64_t values[] = {a->in_use,    a->column[RESIDENT], a->column[SWAPPED],
                              absent_of(a), a->column[ZEROS],    a->column[PINNED]};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        printf("%10s ", text_of(text, values[i]));
    if (has_idle(c))
        printf("%10s ", text_of(text, a->column[IDLE]));
}

static void print_table(const struct dp_query_count *c, size_t n_shown, bool asks_idle)
{
    const size_t width = (has_idle(c) ? 7 : 6) * 11 + 1;
    struct amounts sum = sum_nodes(c);
    size_t room = dp_query_print_room(dp_query_print_columns(), width);
    dp_summary_heading(c->view);
    if (c->view->n_last_without)
        printf("Of %zu process%s that ended the last profile does not tell this (killed, or not answering): an earlier "
               "one is shown.\n",
               c->view->n_last_without, c->view->n_last_without == 1 ? "" : "es");
    print_free(c, &sum);
    if (asks_idle)
        print_idle(c);
    printf("%s%10s %10s %10s %10s %10s %10s%s  name%s\n", dp_query_print_colour(DP_COLOUR_HEAD), "in use", "resident",
           "swapped", "absent", "zeros", "pinned", has_idle(c) ? "       idle" : "",
           dp_query_print_colour(DP_COLOUR_NONE));
    print_row(c, &sum);
    puts(" all");
    for (size_t i = 0; i < n_shown; i++) {
        struct amounts a = amounts_of(c, &c->nodes.at[i]);
        print_row(c, &a);
        putchar(' ');
        dp_query_print_name(stdout, dp_strings_at(&c->names, c->nodes.at[i].name), room);
        putchar('\n');
    }
    if (n_shown < c->nodes.n)
        printf("%zu more functions: -n 0 shows all\n", c->nodes.n - n_shown);
    dp_summary_heading_losses(c->view);
}

/* What the user asked for. */
struct wanted {
    size_t n_rows;
    long idle_s; /* 0: not asked for */
};

/* name: of a process whose profile the path is; NULL: the user wrote the paths. */
static int show(struct dp_query_count *c, char **paths, size_t n, const struct wanted *wanted, const char *name)
{
    struct dp_query *v = c->view;
    int status = dp_query_read(v, paths, n);
    if (name)
        v->argument = name;
    if (!status)
        status = choose_columns(c);
    if (status)
        return status;
    if (dp_query_count_rows(c)) {
        dp_query_print_error("waste", "out of memory");
        return DP_EXIT_FAILED;
    }
    dp_query_count_sort(c);
    drop_callers(c);
    qsort_r(c->nodes.at, c->nodes.n, sizeof *c->nodes.at, by_waste, c);
    size_t n_shown = wanted->n_rows && wanted->n_rows < c->nodes.n ? wanted->n_rows : c->nodes.n;
    if (v->json)
        print_json(c, n_shown);
    else
        print_table(c, n_shown, wanted->idle_s);
    return dp_query_print_flush(v->verb);
}

/* ---- a process -------------------------------------------------------------------------------------------------- */

static bool has_one_thread(pid_t pid)
{
    char line[128];
    long n = 0;
    FILE *status = dp_rss_process_open(pid, "status");
    while (status && fgets(line, sizeof line, status) && sscanf(line, "Threads: %ld", &n) != 1)
        ;
    if (status)
        fclose(status);
    return n == 1;
}

/* The path of a profile of now, or of the newest one; malloc'ed. NULL after one line. */
static char *find_profile(pid_t pid, const char *directory, long idle_s)
{
    char query[64];
    struct dp_rss_process process = {.pid = pid};
    char *found = NULL;
    if (!dp_rss_process_read(&process, pid, "waste")) {
        char *newest = dp_rss_profile_find(&process, directory, false);
        snprintf(query, sizeof query, idle_s ? "?types=idle&seconds=%ld" : "?types=waste", idle_s);
        found = dp_rss_profile_ask(&process, newest, directory, query, idle_s);
        if (found)
            free(newest);
        else
            found = newest;
        if (!found)
            dp_query_print_error("waste", "process %d: it does not answer (listen=) and no profile was found%s",
                                 (int)pid,
                                 has_one_thread(pid) ? "; it has one thread, and the profiler's begins at a sampled "
                                                       "allocation, 100 ms after its start or later"
                                                     : "");
    }
    dp_rss_process_fini(&process);
    return found;
}

static int show_words(struct dp_query_count *c, char **words, size_t n, const struct wanted *wanted)
{
    pid_t pid = n ? dp_cli_options_pid(words[0]) : 0;
    if (!n || (pid && n > 2)) {
        dp_query_print_error("waste", "%s: deltaprof waste [OPTION]... PID [DIR] | PATH...",
                             n ? "one process at a time" : "no PID or PATH given");
        return DP_EXIT_USAGE;
    }
    if (!pid && wanted->idle_s) {
        dp_query_print_error("waste", "%s: --idle asks a running process: it needs a PID", words[0]);
        return DP_EXIT_USAGE;
    }
    if (!pid)
        return show(c, words, n, wanted, NULL);
    char *profile = find_profile(pid, n > 1 ? words[1] : NULL, wanted->idle_s);
    int status = profile ? show(c, &profile, 1, wanted, words[0]) : DP_EXIT_FAILED;
    free(profile);
    return status;
}

/* Reads optarg. 0, or a status after one line. */
static int read_idle(long *seconds)
{
    char *end;
    *seconds = strtol(optarg, &end, 10);
    long factor = !strcmp(end, "h") ? 3600 : !strcmp(end, "m") ? 60 : !strcmp(end, "s");
    if (end != optarg && factor && *seconds > 0 && *seconds <= 3600 / factor) {
        *seconds *= factor;
        return 0;
    }
    dp_query_print_error("waste", "--idle %s: a time from 1s to 1h (s m h)", optarg);
    return DP_EXIT_USAGE;
}

int dp_cli_waste(int argc, char **argv)
{
    enum { OPTION_IDLE = 'i' };
    static const struct option options[] = {{"idle", required_argument, NULL, OPTION_IDLE}, DP_QUERY_OPTIONS};
    struct dp_query view;
    struct dp_query_count count = {.view = &view};
    struct wanted wanted = {.n_rows = 20};
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_query_files_init();
    int status = dp_query_init(&view, "waste", argc);
    for (int option; !status && (option = getopt_long(argc, argv, ":n:", options, NULL)) != -1;)
        status = option == 'n'           ? dp_cli_options_count("waste", "-n", &wanted.n_rows)
                 : option == OPTION_IDLE ? read_idle(&wanted.idle_s)
                                         : dp_query_option(&view, argv, option);
    view.type_name = "inuse_space";
    view.needed = types[0];
    if (!view.at_text) {
        view.at_text = "end";
        view.at = DP_QUERY_AT_END;
    }
    if (!status)
        status = show_words(&count, argv + optind, (size_t)(argc - optind), &wanted);
    dp_query_count_fini(&count);
    dp_query_fini(&view);
    return status;
}
