/* SPDX-License-Identifier: MIT */
/*
 * tool/summary/sentences.c - finds what matters most in a directory of profiles.
 *
 * Each finding has a number, a line of code and a command. What is looked at: leaks, as `leaks` judges them; free
 * memory that malloc holds, and the functions that allocated it at the peak; the function that made others wait most;
 * waits that have not ended; the function that used most CPU time; losses of the profiler. What was in order is one
 * sentence at the end.
 */
#include "tool/summary/sentence_parts.h"
#include "tool/summary/stuck_names.h"

#include "profile/comments.h"
#include "profile/kinds.h"
#include "tool/summary/heading.h"
#include "tool/summary/leaks.h"
#include "tool/summary/wall_sentence.h"
#include "tool/query/print.h"
#include "tool/query/units.h"
#include "tool/query/at.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAITS_SHARE     0.001    /* of the time that the profiles cover */
#define WAITS_LEAST     10000000 /* ns */
#define HAND_OVER_SHARE 0.01     /* of the same time */
#define HAND_OVER       "[hand-over]"

struct dp_summary_sentence *dp_summary_sentences_add(struct dp_summary_sentences *s, const char *kind, double weight)
{
    if (s->n == DP_SUMMARY_SENTENCES_MAX)
        return NULL;
    s->at[s->n] = (struct dp_summary_sentence){.kind = kind, .amount = -1, .stack = DP_STRINGS_NONE, .weight = weight};
    return &s->at[s->n++];
}

void dp_summary_sentences_looked(struct dp_summary_sentences *s, const char *format, ...)
{
    size_t n = strlen(s->looked);
    va_list args;
    va_start(args, format);
    if (n + 2 < sizeof s->looked) {
        n += (size_t)snprintf(s->looked + n, sizeof s->looked - n, "%s", n ? ", " : "");
        vsnprintf(s->looked + n, sizeof s->looked - n, format, args);
    }
    va_end(args);
}

void dp_summary_sentences_open(struct dp_summary_sentences *s, const char *kind, const char *needs)
{
    if (s->n_open == DP_SUMMARY_OPEN_MAX)
        return;
    struct dp_summary_open *to = &s->open[s->n_open++];
    to->kind = kind;
    snprintf(to->needs, sizeof to->needs, "%s", needs);
}

int dp_summary_sentences_query(struct dp_query *v, const struct dp_summary_sentences *s, const char *type, int at)
{
    int status = dp_query_init(v, s->verb, 1);
    v->limit_bytes = s->limit_bytes;
    v->type_name = type;
    v->at = at;
    return status;
}

void dp_summary_sentences_time(char *to, size_t n_bytes, int64_t ns)
{
    static const struct {
        double below_s, factor;
        const char *unit;
    } steps[] = {{1e-3, 1e6, "us"}, {1, 1e3, "ms"}, {120, 1, "s"}, {7200, 1.0 / 60, "min"}, {1e300, 1.0 / 3600, "h"}};
    double seconds = (double)ns / 1e9;
    size_t i = 0;
    while (seconds >= steps[i].below_s)
        i++;
    snprintf(to, n_bytes, seconds >= 10 && seconds < 120 ? "%.0f%s" : "%.3g%s", seconds * steps[i].factor,
             steps[i].unit);
}

void dp_summary_sentences_note_symbols(struct dp_summary_sentences *s, const struct dp_query *v)
{
    if (!*s->no_symbols && !dp_summary_heading_no_symbols(v, s->no_symbols, sizeof s->no_symbols - 2))
        *s->no_symbols = '\0';
}

/* If a sentence names a place instead of a function: what would give it a name. */
static void say_symbols(struct dp_summary_sentences *s)
{
    bool has_place = false;
    for (size_t i = 0; i < s->n; i++) {
        char name[256];
        const char *at = NULL;
        if (s->at[i].stack != DP_STRINGS_NONE &&
            dp_query_stacks_next(&s->stacks, s->at[i].stack, &at, name, sizeof name))
            has_place |= dp_model_is_place(name);
    }
    struct dp_summary_sentence *to = has_place && *s->no_symbols ? dp_summary_sentences_add(s, "symbols", 0.05) : NULL;
    if (to)
        snprintf(to->text, sizeof to->text, "%.700s.", s->no_symbols);
}

bool dp_summary_sentences_have_kind(const struct dp_query_paths *paths, const char *kind)
{
    bool found = false;
    for (size_t i = 0; i < paths->n && !found; i++) {
        struct dp_query_file name;
        found = dp_query_file_parse(paths->at[i], &name) && name.n_kind == strlen(kind) &&
                !memcmp(name.kind, kind, name.n_kind);
    }
    return found;
}

/* Sums a kind of profile by function. The query and the functions are to be ended also after an error. */
static int read_kind(struct dp_summary_sentences *s, struct dp_query *v, const char *kind, const char *type,
                     struct dp_summary_functions *f)
{
    int status = dp_summary_sentences_query(v, s, type, DP_QUERY_AT_USUAL);
    v->kind = kind;
    if (!status)
        status = dp_query_read(v, s->paths, s->n_paths);
    if (!status && dp_summary_functions_count(f, v, 1, true)) {
        dp_query_print_error(s->verb, "out of memory");
        status = DP_EXIT_FAILED;
    }
    return status;
}

/* ---- leaks ------------------------------------------------------------------------------------------------------ */

static int find_leaks(struct dp_summary_sentences *s)
{
    struct dp_summary_leaks_summary leaks;
    struct dp_summary_sentence *to;
    char bytes[32], per_hour[32], work[32], more[64] = "";
    int status = dp_summary_leaks_summarize(&leaks, s->verb, s->paths, s->n_paths, &s->stacks);
    const char *ticks = leaks.n_ticks == 1 ? "" : "s";
    if (status)
        return status;
    dp_query_print_unit(bytes, sizeof bytes, leaks.worst_bytes, "bytes");
    dp_query_print_unit(per_hour, sizeof per_hour, leaks.worst_per_hour, "bytes");
    dp_summary_sentences_time(work, sizeof work, leaks.work_ns);
    if (leaks.n_leaks > 1)
        snprintf(more, sizeof more, "; %zu more leak%s", leaks.n_leaks - 1, leaks.n_leaks == 2 ? "" : "s");
    if (leaks.verdict == DP_LEAKS_LEAK && (to = dp_summary_sentences_add(s, "leak", 3))) {
        snprintf(to->text, sizeof to->text, "Leak: %s, %s%s%s%s in %s of work, unless it is data to keep%s%s.",
                 leaks.worst, bytes, leaks.worst_per_hour > 0 ? ", +" : "", leaks.worst_per_hour > 0 ? per_hour : "",
                 leaks.worst_per_hour > 0 ? " an hour" : "", work,
                 leaks.may_be_filling ? " or a cache that still fills" : "", more);
        to->amount = leaks.bytes;
        to->stack = leaks.stack;
        to->verb = "leaks";
    } else if (leaks.verdict == DP_LEAKS_CANNOT_TELL && (to = dp_summary_sentences_add(s, "leak-unknown", 0.1))) {
        dp_summary_sentences_open(s, "leak", leaks.needs);
        snprintf(to->text, sizeof to->text, "Whether it leaks cannot be told yet: %s.", leaks.needs);
        to->verb = "leaks";
    } else {
        dp_summary_sentences_looked(s, "no leak in %zu tick%s", leaks.n_ticks, ticks);
    }
    return 0;
}

/* ---- locks ------------------------------------------------------------------------------------------------------ */

/* is_gil: the lock is an interpreter's. at: where it is, or NULL. */
struct its_lock {
    bool is_gil;
    const char *at;
};

static void say_lock(struct dp_summary_sentences *s, const struct dp_summary_function *worst, double share,
                     int64_t hand_overs, const struct dp_summary_place *place, struct its_lock lock,
                     const char *duration)
{
    struct dp_summary_sentence *to = dp_summary_sentences_add(s, "lock", 1 + (share < 1 ? share : 1));
    char delay[32], more[48] = "";
    dp_summary_sentences_time(delay, sizeof delay, worst->value);
    if (hand_overs >= worst->value) {
        dp_summary_sentences_time(more, sizeof more - 5, hand_overs);
        strcat(more, " more");
    }
    if (!to)
        return;
    if (!strcmp(place->name, HAND_OVER))
        snprintf(to->text, sizeof to->text,
                 "Threads waited %s while no thread held the lock, in %s of ticks with waits: it changes hands often.",
                 delay, duration);
    else if (*place->name == '[')
        snprintf(to->text, sizeof to->text,
                 "Threads waited %s for a lock whose holder is not known, in %s of ticks with waits.", delay, duration);
    else
        snprintf(to->text, sizeof to->text,
                 "%s made other threads wait %s for %s%s%.200s%s, in %s of ticks with waits%s%s.", place->name, delay,
                 lock.is_gil ? "the GIL of Python" : "its lock", lock.at ? " (" : "", lock.at ? lock.at : "",
                 lock.at ? ")" : "", duration, *more ? "; hand-overs of locks took " : "", more);
    to->amount = worst->value;
    to->is_time = true;
    to->stack = place->stack;
    to->verb = "waits";
}

/*
 * The function that made others wait most, if that is worth a sentence. Time without a holder comes second, and must be
 * more: a thread that was woken always needs some time until it runs.
 */
static const struct dp_summary_function *worst_holder(const struct dp_summary_functions *f, double lasted_ns)
{
    const struct dp_summary_function *worst = NULL, *other = NULL;
    for (size_t i = 0; i < f->at.n; i++) {
        const struct dp_summary_function *it = &f->at.at[i];
        bool is_synthetic = *dp_strings_at(&f->names, (uint32_t)i + 1) == '[';
        double share = is_synthetic ? HAND_OVER_SHARE : WAITS_SHARE;
        const struct dp_summary_function **to = is_synthetic ? &other : &worst;
        if (it->best && it->value >= WAITS_LEAST && (double)it->value >= share * lasted_ns &&
            it->value > (*to ? (*to)->value : 0))
            *to = it;
    }
    return worst ? worst : other;
}

static int64_t hand_overs_ns(const struct dp_summary_functions *f)
{
    for (size_t i = 0; i < f->at.n; i++)
        if (!strcmp(dp_strings_at(&f->names, (uint32_t)i + 1), HAND_OVER))
            return f->at.at[i].value;
    return 0;
}

static bool has_stuck(const struct dp_summary_sentences *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->at[i].kind, "stuck"))
            return true;
    return false;
}

/* After find_stuck: what waits still go on for is not in mutex profiles. */
static int find_locks(struct dp_summary_sentences *s, const struct dp_query_paths *paths)
{
    const char *other = has_stuck(s) ? "other " : "";
    struct dp_query v;
    struct dp_summary_functions f = {.at = {0}};
    struct dp_summary_place place;
    char text[32];
    if (!dp_summary_sentences_have_kind(paths, "mutex")) {
        dp_summary_sentences_looked(s, "no %slock that made others wait", other);
        return 0;
    }
    int status = read_kind(s, &v, "mutex", "delay", &f);
    int64_t lasted_ns = status ? 0 : dp_model_merge_covered_ns(&v.merge);
    const struct dp_summary_function *most = status ? NULL : dp_summary_functions_largest(&f);
    const struct dp_summary_function *worst = status ? NULL : worst_holder(&f, (double)lasted_ns);
    if (worst && dp_summary_place_of_row(&place, &s->stacks, &v, worst->row)) {
        dp_summary_sentences_time(text, sizeof text, lasted_ns);
        char number[32];
        const char *kind = dp_query_label_value(&v.merge.model, worst->row, "lock", number);
        const char *at = dp_query_label_value(&v.merge.model, worst->row, "lock_at", number);
        struct its_lock lock = {kind && !strcmp(kind, "gil"), at == number ? NULL : at};
        say_lock(s, worst, lasted_ns > 0 ? (double)worst->value / (double)lasted_ns : 0, hand_overs_ns(&f), &place,
                 lock, text);
    } else if (!status) {
        dp_summary_sentences_time(text, sizeof text, most ? most->value : 0);
        dp_summary_sentences_looked(s, "no %slock that made others wait%s%s", other, most ? " more than " : "",
                                    most ? text : "");
    }
    dp_summary_sentences_note_symbols(s, &v);
    dp_summary_functions_fini(&f);
    dp_query_fini(&v);
    return status;
}

/* ---- waits that do not end -------------------------------------------------------------------------------------- */

/* What a profile tells of a wait. */
struct stuck {
    int64_t ms, since_ns; /* ms 0: nothing */
    bool is_end;          /* the process ended with the profile */
    bool is_of_tables;    /* another process made it, which does not see who waits */
    char text[DP_SUMMARY_SENTENCE_BYTES];
};

static void read_stuck(const struct dp_summary_sentences *s, const char *file, struct stuck *stuck)
{
    struct dp_query_source source = {.is_quiet = true};
    *stuck = (struct stuck){.ms = 0};
    if (!dp_query_read_file(s->verb, file, DP_DECODE_LIMIT, &source)) {
        const struct dp_decode *d = &source.decode;
        stuck->is_end = dp_model_merge_says(d, DP_COMMENT_ENDED) || dp_model_merge_says(d, DP_COMMENT_EXIT);
        stuck->is_of_tables = dp_model_merge_says(d, DP_COMMENT_TABLES);
        for (size_t i = 0; i < d->comments.n && !stuck->ms; i++) {
            size_t n, n_begin = strlen(DP_COMMENT_STUCK);
            const char *text = dp_decode_text(d, d->comments.at[i], &n);
            char line[DP_SUMMARY_SENTENCE_BYTES], *rest;
            if (n <= n_begin || memcmp(text, DP_COMMENT_STUCK, n_begin))
                continue;
            snprintf(line, sizeof line, "%.*s", (int)(n - n_begin), text + n_begin);
            int64_t ms = strtoll(line, &rest, 10);
            if (ms <= 0 || *rest != ' ')
                continue;
            stuck->ms = ms;
            stuck->since_ns = d->time_ns + d->duration_ns - ms * 1000000;
            snprintf(stuck->text, sizeof stuck->text, "%s", rest + 1);
            dp_summary_stuck_names(d, stuck->text, sizeof stuck->text);
        }
    }
    dp_query_source_fini(&source);
}

static void say_stuck(struct dp_summary_sentences *s, const struct stuck *stuck)
{
    char since[64];
    struct dp_summary_sentence *to = stuck->ms ? dp_summary_sentences_add(s, "stuck", 10) : NULL;
    if (!to)
        return;
    dp_query_at_text(since, sizeof since, stuck->since_ns);
    snprintf(to->text, sizeof to->text, "Since %s: %.700s.", since, stuck->text);
    to->amount = stuck->ms * 1000000;
    to->is_time = true;
}

static bool is_deadlock(const struct stuck *stuck)
{
    return stuck->ms && !strncmp(stuck->text, "deadlock", strlen("deadlock"));
}

/*
 * Of each process its newest profile that tells it, which it has written itself. If the process ended with that, the
 * one before it may know more: a thread that runs the handler of the signal that ends the process is not seen to wait.
 */
static int find_stuck(struct dp_summary_sentences *s)
{
    struct dp_query_paths paths = {.n = 0};
    int status = dp_query_paths_add_all(&paths, s->verb, s->paths, s->n_paths);
    struct dp_query_file *files = status ? NULL : calloc(paths.n + 1, sizeof *files);
    size_t n = files ? dp_query_files_sort(paths.at, paths.n, files) : 0;
    for (size_t i = 0; i < n; i++) {
        struct stuck newest, before = {.ms = 0};
        if (files[i].kind_id == DP_KINDS || !dp_kind_table[files[i].kind_id].tells_stuck ||
            (i && dp_query_file_is_same(&files[i - 1], &files[i])))
            continue;
        read_stuck(s, files[i].file, &newest);
        if (newest.is_of_tables && i + 1 < n && dp_query_file_is_same(&files[i], &files[i + 1]))
            read_stuck(s, files[++i].file, &newest);
        if (newest.is_end && i + 1 < n && dp_query_file_is_same(&files[i], &files[i + 1]))
            read_stuck(s, files[i + 1].file, &before);
        bool knew_more = before.ms && (!newest.ms || (is_deadlock(&before) && !is_deadlock(&newest)));
        say_stuck(s, knew_more ? &before : &newest);
    }
    free(files);
    dp_query_paths_fini(&paths);
    return status;
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static int by_weight(const void *a, const void *b)
{
    const struct dp_summary_sentence *x = a, *y = b;
    return (x->weight < y->weight) - (x->weight > y->weight);
}

int dp_summary_sentences_find(struct dp_summary_sentences *s)
{
    struct dp_query_paths paths = {.n = 0};
    int status = dp_query_paths_add_all(&paths, s->verb, s->paths, s->n_paths);
    if (dp_summary_sentences_have_kind(&paths, "heap") ||
        !(dp_summary_sentences_have_kind(&paths, "mutex") || dp_summary_sentences_have_kind(&paths, "block") ||
          dp_summary_sentences_have_kind(&paths, "cpu") || dp_summary_sentences_have_kind(&paths, "wall"))) {
        status = status ? status : find_leaks(s);
        status = status ? status : dp_summary_sentences_held(s);
    } else {
        dp_summary_sentences_looked(
            s, "no heap profile: too few bytes were allocated for a sample; a smaller heap_rate= sees them");
        dp_summary_sentences_open(s, "heap", "no heap profile: a smaller heap_rate");
    }
    status = status ? status : find_stuck(s);
    status = status ? status : find_locks(s, &paths);
    if (dp_summary_sentences_have_kind(&paths, "cpu"))
        status = status ? status : dp_summary_sentences_cpu(s);
    status = status ? status : dp_summary_sentences_wall(s, &paths);
    status = status ? status : dp_summary_sentences_lost(s, &paths);
    dp_query_paths_fini(&paths);
    say_symbols(s);
    qsort(s->at, s->n, sizeof *s->at, by_weight);
    struct dp_summary_sentence *to = status ? NULL : dp_summary_sentences_add(s, s->n ? "looked" : "nothing", 0);
    if (to)
        snprintf(to->text, sizeof to->text, "%s%.700s.", s->n > 1 ? "Also looked at: " : "Nothing to say: ", s->looked);
    return status;
}

void dp_summary_sentences_fini(struct dp_summary_sentences *s)
{
    dp_query_stacks_fini(&s->stacks);
}
