/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/waits.c - `deltaprof waits`: shows pairs of a stack that waited for a lock and the stack that held it.
 *
 * Pairs are the rows of chain profiles. Pairs that look the same are one: the key of a sum is the text of both stacks,
 * with a separator behind each name and another one between the stacks.
 */
#include "tool/cli/cli.h"
#include "tool/cli/live.h"
#include "tool/summary/heading.h"
#include "tool/cli/options.h"
#include "tool/query/json.h"
#include "tool/query/print.h"
#include "tool/query/units.h"
#include "tool/query/query.h"
#include "profile/kinds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_END = '\x1f', WAITER_END = '\x1e' };

static const char about[] =
    "Shows pairs of stacks: a stack that waited for locks, and below it the stack that held them meanwhile, with\n"
    "the number of its unlocks, and where the lock is, if that is known: its variable, or the block that it is in. "
    "The\n"
    "pairs with the most waiting time come first. They are in profiles of the kind chain. A PATH is a file (- is "
    "standard input), a directory or a glob. A filter selects a pair if one of its two\n"
    "stacks matches.\n"
    "\n"
    "  -n N              how many pairs (default 20; 0: all)\n" DP_QUERY_HELP_STACKS DP_QUERY_HELP_AT DP_QUERY_HELP_JSON
        DP_QUERY_HELP_LIMIT DP_COLOUR_HELP;

struct sum {
    uint32_t key;
    int64_t n, ns;
    const char *lock_at; /* of the row with the longest time, lock_ns; NULL: not known */
    int64_t lock_ns;
    bool has_others; /* rows with another lock */
};

struct waits {
    struct dp_query query;
    size_t n_shown;
    int64_t total;
    size_t n_type; /* the sample type of the unlocks, if has_n */
    bool has_n;
    struct dp_strings keys;
    DP_VEC(struct sum) sums; /* by key - 1, then by time */
    DP_VEC(char) text;
};

static int add_text(struct waits *w, const char *text, char end)
{
    size_t n = strlen(text);
    char *to = dp_vec_room(&w->text, n + 1);
    if (!to)
        return -ENOMEM;
    memcpy(to, text, n);
    to[n] = end;
    w->text.n += n + 1;
    return 0;
}

/* Appends the names of one end. 1; 0: the row is not shown; -ENOMEM. */
static int add_end(struct waits *w, uint32_t row, enum dp_query_end end)
{
    struct dp_query *v = &w->query;
    int shown = dp_query_chain(v, row, end), err = shown < 0 ? shown : 0;
    for (size_t i = 0; shown > 0 && i < v->stack.n && !err; i++)
        err = add_text(w, dp_query_naming_frames_text(&v->frames, v->frames.at.at[v->stack.at[i]].name), NAME_END);
    return err ? err : shown;
}

static void add_lock(struct waits *w, struct sum *sum, uint32_t row)
{
    static char number[32]; /* the label is a text in all profiles of deltaprof */
    const char *lock_at = dp_query_label_value(&w->query.merge.model, row, "lock_at", number);
    int64_t ns = dp_query_value(&w->query, row);
    if (!lock_at || lock_at == number)
        return;
    sum->has_others |= sum->lock_at && strcmp(sum->lock_at, lock_at) != 0;
    if (sum->lock_at && ns <= sum->lock_ns)
        return;
    sum->lock_at = lock_at;
    sum->lock_ns = ns;
}

static int add_row(struct waits *w, uint32_t row)
{
    const struct dp_model_merge *merge = &w->query.merge;
    const int64_t *values = &merge->values.at[row * merge->model.types.n];
    int err;
    dp_vec_clear(&w->text);
    if ((err = add_end(w, row, DP_QUERY_WAITER)) <= 0 || (err = add_text(w, "", WAITER_END)) ||
        (err = add_end(w, row, DP_QUERY_HOLDER)) < 0)
        return err;
    if (dp_strings_add(&w->keys, "", 0) == DP_STRINGS_NONE)
        return -ENOMEM;
    uint32_t key = dp_strings_add(&w->keys, w->text.at, w->text.n);
    if (key == DP_STRINGS_NONE)
        return -ENOMEM;
    bool is_new = key > w->sums.n;
    struct sum *sum = is_new ? dp_vec_push(&w->sums) : &w->sums.at[key - 1];
    if (!sum)
        return -ENOMEM;
    if (is_new)
        *sum = (struct sum){.key = key};
    add_lock(w, sum, row);
    dp_model_merge_sum(&sum->n, w->has_n ? values[w->n_type] : 0);
    dp_model_merge_sum(&sum->ns, dp_query_value(&w->query, row));
    dp_model_merge_sum(&w->total, dp_query_value(&w->query, row));
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const struct sum *x = a, *y = b;
    return x->ns != y->ns ? (x->ns < y->ns) - (x->ns > y->ns) : (x->key > y->key) - (x->key < y->key);
}

/* Whether these functions only start a program or a thread. */
static bool is_start(const char *name, size_t n)
{
    static const char *const names[] = {"_start", "start_thread", "__clone",     "__clone3",
                                        "clone",  "clone3",       "thread_start"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && !strncmp(name, names[i], n))
            return true;
    return n > 12 && !strncmp(name, "__libc_start", 12);
}

/* OBJECT+0xPLACE: code without a name. */
static bool is_place(const char *name, size_t n)
{
    const char *plus = memrchr(name, '+', n);
    return plus && (size_t)(name + n - plus) > 3 && !strncmp(plus, "+0x", 3) &&
           strspn(plus + 3, "0123456789abcdef") >= (size_t)(name + n - plus - 3);
}

/*
 * Prints the names of one stack from *at on, as many as fit from its leaf on; *at moves behind them. Places without a
 * name and what starts the program or the thread are left out, but the leaf stays.
 */
static void join(struct waits *w, const char **at, const char *end, size_t n_columns)
{
    size_t n_more = 0;
    bool is_full = false;
    dp_vec_clear(&w->text);
    for (; *at < end && **at != WAITER_END; *at += strcspn(*at, "\x1f") + 1) {
        size_t n = strcspn(*at, "\x1f"), n_first = w->text.n;
        bool is_skipped = n_first && (is_start(*at, n) || is_place(*at, n));
        is_full |= n_first && !is_skipped && n_columns && n_first + n + 12 > n_columns;
        if (is_skipped || is_full) {
            n_more += !is_start(*at, n);
            continue;
        }
        char *to = dp_vec_room(&w->text, n + 4);
        if (to)
            w->text.n += (size_t)sprintf(to, n_first ? " < %.*s" : "%.*s", (int)n, *at);
    }
    char more[32] = "";
    if (n_more)
        snprintf(more, sizeof more, " < %zu more", n_more);
    if (w->text.n)
        dp_query_print_name(stdout, w->text.at, n_columns > strlen(more) + 4 ? n_columns - strlen(more) : n_columns);
    fputs(more, stdout);
    putchar('\n');
    *at += *at < end;
}

static void show(struct waits *w, size_t n)
{
    enum { BEFORE = 29, LEAST = 28 }; /* columns before the stacks, and of the stacks */
    size_t columns = dp_query_print_columns(), n_columns = columns > BEFORE + LEAST ? columns - BEFORE
                                                           : columns                ? LEAST
                                                                                    : 0;
    if (n)
        printf("%10s %7s %8s\n", "delay", "share", "unlocks");
    for (size_t i = 0; i < n; i++) {
        const struct sum *sum = &w->sums.at[i];
        const char *at = dp_strings_at(&w->keys, sum->key), *end = at + dp_strings_size(&w->keys, sum->key);
        char delay[32];
        dp_query_print_unit(delay, sizeof delay, sum->ns, "nanoseconds");
        printf("%10s %6.1f%% %8lld  ", delay, 100.0 * (double)sum->ns / (double)w->total, (long long)sum->n);
        join(w, &at, end, n_columns);
        printf("%*s%sheld by%s ", BEFORE, "", dp_query_print_colour(DP_COLOUR_WARN),
               dp_query_print_colour(DP_COLOUR_NONE));
        join(w, &at, end, n_columns ? n_columns - 8 : 0);
        if (sum->lock_at) {
            printf("%*slock: ", BEFORE, "");
            dp_query_print_name(stdout, sum->lock_at, n_columns ? n_columns - 6 : 0);
            puts(sum->has_others && strncmp(sum->lock_at, "several ", 8) ? ", and others" : "");
        }
    }
    if (!w->sums.n)
        printf("no pairs of a waiter and a holder; where threads waited: deltaprof top --type delay %s\n",
               dp_query_print_word_of(w->query.argument));
}

static void json_stack(struct waits *w, const char *key, const char **at, const char *end)
{
    printf(",\"%s\":[", key);
    for (const char *separator = ""; *at < end && **at != WAITER_END; separator = ",") {
        int n = (int)strcspn(*at, "\x1f");
        dp_vec_clear(&w->text);
        char *to = dp_vec_room(&w->text, (size_t)n + 1);
        if (to)
            sprintf(to, "%.*s", n, *at);
        fputs(separator, stdout);
        dp_query_print_json_string(to ? to : "");
        *at += n + 1;
    }
    putchar(']');
    *at += *at < end;
}

static void show_json(struct waits *w, size_t n)
{
    dp_query_print_json_text("{", "unit", "nanoseconds");
    dp_query_print_json_number(",", "total", w->total);
    printf(",\"pairs\":[");
    for (size_t i = 0; i < n; i++) {
        const struct sum *sum = &w->sums.at[i];
        const char *at = dp_strings_at(&w->keys, sum->key), *end = at + dp_strings_size(&w->keys, sum->key);
        dp_query_print_json_number(i ? ",{" : "{", "ns", sum->ns);
        dp_query_print_json_number(",", "unlocks", sum->n);
        json_stack(w, "waiter", &at, end);
        json_stack(w, "holder", &at, end);
        dp_query_print_json_text(",", "lock_at", sum->lock_at ? sum->lock_at : "");
        putchar('}');
    }
    puts("]}");
}

static int collect(struct waits *w)
{
    const struct dp_model *m = &w->query.merge.model;
    int err = 0;
    w->n_type = dp_model_type_named(m, "contentions");
    w->has_n = w->n_type < m->types.n;
    for (uint32_t row = 0; row < m->rows.n && !err; row++)
        if (dp_query_value(&w->query, row))
            err = add_row(w, row);
    if (err) {
        dp_query_print_error("waits", "out of memory");
        return DP_EXIT_FAILED;
    }
    if (w->sums.n)
        qsort(w->sums.at, w->sums.n, sizeof *w->sums.at, by_time);
    return 0;
}

int dp_cli_waits(int argc, char **argv)
{
    static const struct option options[] = {DP_QUERY_OPTIONS};
    struct waits w = {.n_shown = 20};
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_query_files_init();
    int status = dp_query_init(&w.query, "waits", argc);
    for (int option; !status && (option = getopt_long(argc, argv, ":n:", options, NULL)) != -1;) {
        if (option != 'n')
            status = dp_query_option(&w.query, argv, option);
        else
            status = dp_cli_options_count("waits", "-n", &w.n_shown);
    }
    if (!status && (w.query.kind || w.query.merge.with_inherited)) {
        dp_query_print_error("waits", w.query.kind ? "no --kind: waits shows chain profiles"
                                                   : "no --inherited: it is about memory");
        status = DP_EXIT_USAGE;
    }
    if (!status && optind == argc) {
        dp_query_print_error("waits", "no file given: deltaprof waits [OPTION]... PATH...");
        status = DP_EXIT_USAGE;
    }
    if (!status && w.query.type_name && strcmp(w.query.type_name, "delay")) {
        dp_query_print_error("waits", "no --type: waits shows the delay of pairs");
        status = DP_EXIT_USAGE;
    }
    if (!status)
        status = dp_cli_live_begin("waits", argv + optind, argc - optind);
    w.query.preferred = "delay";
    if (!status && strcmp(argv[optind], "-"))
        w.query.kind = dp_kind_table[DP_KIND_CHAIN].name;
    status = status ? status : dp_query_read(&w.query, argv + optind, (size_t)(argc - optind));
    if (!status && strcmp(dp_query_type(&w.query), "delay")) {
        dp_query_print_error("waits", "%s: no chain profile; deltaprof run writes some when threads wait for locks",
                             dp_query_print_word_of(dp_query_file_name(w.query.argument)));
        status = DP_EXIT_FAILED;
    }
    status = status ? status : collect(&w);
    if (!status) {
        size_t n = w.n_shown && w.n_shown < w.sums.n ? w.n_shown : w.sums.n;
        (w.query.json ? show_json : show)(&w, n);
        if (!w.query.json)
            dp_summary_heading_losses(&w.query);
        status = dp_query_print_flush(w.query.verb);
    }
    dp_strings_fini(&w.keys);
    dp_vec_fini(&w.sums);
    dp_vec_fini(&w.text);
    dp_query_fini(&w.query);
    return status;
}
