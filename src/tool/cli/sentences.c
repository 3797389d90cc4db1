/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/sentences.c - finds what matters most in a directory of profiles.
 *
 * Each finding has a number, a line of code and a command. What is looked at: leaks, as `leaks` judges them; memory
 * that malloc holds and nobody uses, and who allocated at the peak what is free now, which is why malloc holds it; the
 * function that made others wait most; waits that have not ended; the function that used most CPU time; where threads
 * spent their time; losses of the profiler. What was in order is one sentence at the end.
 */
#include "tool/cli/sentences.h"

#include "profile/comments.h"
#include "profile/kinds.h"
#include "tool/cli/functions.h"
#include "tool/cli/heading.h"
#include "tool/cli/leaks.h"
#include "tool/cli/wall_sentence.h"
#include "tool/query/print.h"
#include "tool/query/units.h"
#include "tool/query/at.h"
#include "tool/leaks/series.h"
#include "tool/rss/rss.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD_SHARE  0.1       /* of resident memory; less is normal */
#define HELD_LEAST  (2 << 20) /* bytes */
#define CAUSE_SHARE 0.25      /* of what malloc holds: a function that had less did not cause it */
#define WAITS_SHARE 0.001     /* of the time that the profiles cover */
#define WAITS_LEAST 10000000  /* ns */
#define CORES_LEAST 0.02      /* used on average; less is idle */

/* ---- leaks ------------------------------------------------------------------------------------------------------ */

static int find_leaks(struct dp_cli_sentences *s)
{
    struct dp_cli_leaks_summary leaks;
    struct dp_cli_sentence *to;
    char bytes[32], per_hour[32], more[64] = "";
    int status = dp_cli_leaks_summarize(&leaks, s->verb, s->paths, s->n_paths, &s->stacks);
    const char *ticks = leaks.n_ticks == 1 ? "" : "s";
    if (status)
        return status;
    dp_query_print_unit(bytes, sizeof bytes, leaks.worst_bytes, "bytes");
    dp_query_print_unit(per_hour, sizeof per_hour, leaks.worst_per_hour, "bytes");
    if (leaks.n_leaks > 1)
        snprintf(more, sizeof more, "; %zu more leak%s", leaks.n_leaks - 1, leaks.n_leaks == 2 ? "" : "s");
    if (leaks.verdict == DP_LEAKS_LEAK && (to = dp_cli_sentence_add(s, "leak", 3))) {
        snprintf(to->text, sizeof to->text, "Leak: %s%s%s%s, %s%s%s%s%s.", leaks.worst, *leaks.place ? " (" : "",
                 leaks.place, *leaks.place ? ")" : "", bytes, leaks.worst_per_hour > 0 ? ", +" : "",
                 leaks.worst_per_hour > 0 ? per_hour : "", leaks.worst_per_hour > 0 ? " an hour" : "", more);
        to->amount = leaks.bytes;
        to->stack = leaks.stack;
        to->verb = "leaks";
    } else if (leaks.verdict == DP_LEAKS_CANNOT_TELL && (to = dp_cli_sentence_add(s, "leak-unknown", 0.1))) {
        snprintf(to->text, sizeof to->text, "Whether it leaks cannot be told yet: %s.", leaks.needs);
        to->verb = "leaks";
    } else {
        dp_cli_sentence_note(s, "no leak in %zu tick%s", leaks.n_ticks, ticks);
    }
    return 0;
}

/* ---- memory that malloc holds ----------------------------------------------------------------------------------- */

/* Resident memory by the comments of profiles. */
struct resident {
    int64_t total, held;
};

static void take_comment(struct resident *r, const char *text, size_t n)
{
    static const char total[] = "#RssTotal=", held[] = "#RssPart " DP_RSS_HELD "=";
    char number[24] = "";
    bool is_held = n >= sizeof held && !memcmp(text, held, sizeof held - 1);
    size_t n_head = is_held ? sizeof held - 1 : sizeof total - 1;
    if (n <= n_head || n - n_head >= sizeof number || (!is_held && memcmp(text, total, n_head)))
        return;
    memcpy(number, text + n_head, n - n_head);
    dp_model_merge_sum(is_held ? &r->held : &r->total, strtoll(number, NULL, 10));
}

/* Reads the comments of the files whose states count. */
static int read_resident(struct dp_query *v, struct resident *r)
{
    struct dp_query_source source = {.is_quiet = false};
    int status = 0;
    for (size_t i = 0; i < v->moments.at.n && !status; i++) {
        const struct dp_query_moment *m = &v->moments.at.at[i];
        if (!m->part.counts)
            continue;
        status = dp_query_read_file(v->verb, v->paths.at[m->path], v->limit_bytes, &source);
        for (size_t j = 0; j < source.decode.comments.n && !status; j++) {
            size_t n;
            const char *text = dp_decode_text(&source.decode, source.decode.comments.at[j], &n);
            take_comment(r, text, n);
        }
    }
    dp_query_source_fini(&source);
    return status;
}

static void say_held(struct dp_cli_sentences *s, const struct resident *r, struct dp_query *peak,
                     const struct dp_cli_functions *freed)
{
    double share = (double)r->held / (double)r->total;
    const struct dp_cli_function *f = dp_cli_functions_largest(freed);
    struct dp_cli_sentence *to = dp_cli_sentence_add(s, "held", 1 + share);
    struct dp_cli_place place;
    char held[32], most[32], gone[32], when[64];
    if (!to)
        return;
    dp_query_print_unit(held, sizeof held, r->held, "bytes");
    int n = snprintf(to->text, sizeof to->text, "%.0f%% of resident memory, %s, is held by malloc and not in use",
                     100 * share, held);
    to->amount = r->held;
    to->verb = "rss";
    if (f && (double)f->value >= CAUSE_SHARE * (double)r->held && dp_cli_functions_describe(s, peak, f->row, &place)) {
        dp_query_print_unit(gone, sizeof gone, f->value, "bytes");
        dp_query_print_unit(most, sizeof most, peak->moments.bytes, "bytes");
        dp_query_at_text(when, sizeof when, peak->moments.time_ns);
        n += snprintf(to->text + n, sizeof to->text - (size_t)n, ": %s had %s more at the peak (%s in use, %s) than %s",
                      place.name, gone, most, when, peak->merge.goes_on ? "now" : "at the end");
        to->stack = place.stack;
    }
    snprintf(to->text + n, sizeof to->text - (size_t)n, ".");
}

static int find_held(struct dp_cli_sentences *s)
{
    struct dp_query peak, end;
    struct dp_cli_functions freed = {.at = {0}};
    struct resident r = {0};
    char most[32], when[64];
    int status = dp_cli_sentence_begin(&peak, s, "inuse_space", DP_QUERY_AT_PEAK);
    if (!status)
        status = dp_query_read(&peak, s->paths, s->n_paths);
    int of_end = dp_cli_sentence_begin(&end, s, "inuse_space", DP_QUERY_AT_END);
    status = status ? status : of_end;
    if (!status)
        status = dp_query_read(&end, s->paths, s->n_paths);
    if (!status)
        status = read_resident(&end, &r);
    if (!status &&
        (dp_cli_functions_count(&freed, &peak, 1, true) || dp_cli_functions_count(&freed, &end, -1, false))) {
        dp_query_print_error(s->verb, "out of memory");
        status = DP_EXIT_FAILED;
    }
    if (!status && r.total > 0 && r.held >= HELD_LEAST && (double)r.held >= HELD_SHARE * (double)r.total)
        say_held(s, &r, &peak, &freed);
    else if (!status && r.total > 0)
        dp_cli_sentence_note(s, "%.0f%% of resident memory held by malloc and not in use",
                             100 * (double)r.held / (double)r.total);
    else if (!status)
        dp_cli_sentence_note(s, "resident memory was not measured");
    if (!status) {
        dp_query_print_unit(most, sizeof most, peak.moments.bytes, "bytes");
        dp_query_at_text(when, sizeof when, peak.moments.time_ns);
        dp_cli_sentence_note(s, "at most %s in use, %s", most, when);
    }
    for (uint32_t i = 1; i < dp_strings_count(&end.losses) && !status; i++) {
        struct dp_cli_sentence *to = i == 1 ? dp_cli_sentence_add(s, "lost", 0.5) : NULL;
        if (to)
            snprintf(to->text, sizeof to->text, "Lost: %.500s.", dp_strings_at(&end.losses, i));
        if (to)
            to->verb = "top";
    }
    if (!status && dp_strings_count(&end.losses) < 2)
        dp_cli_sentence_note(s, "nothing lost");
    dp_cli_functions_fini(&freed);
    dp_query_fini(&peak);
    dp_query_fini(&end);
    return status;
}

/* ---- locks ------------------------------------------------------------------------------------------------------ */

static int find_locks(struct dp_cli_sentences *s, const struct dp_query_paths *paths)
{
    struct dp_query v;
    struct dp_cli_functions f = {.at = {0}};
    struct dp_cli_place place;
    char delay[32], duration[32];
    if (!dp_cli_sentence_has_kind(paths, "mutex")) {
        dp_cli_sentence_note(s, "no lock that made others wait");
        return 0;
    }
    int status = dp_cli_functions_read_kind(s, &v, "mutex", "delay", &f);
    const struct dp_cli_function *worst = status ? NULL : dp_cli_functions_largest(&f);
    double lasted = (double)v.merge.header.duration_ns;
    if (worst && worst->value >= WAITS_LEAST && (double)worst->value >= WAITS_SHARE * lasted &&
        dp_cli_functions_describe(s, &v, worst->row, &place)) {
        double share = lasted > 0 ? (double)worst->value / lasted : 0;
        struct dp_cli_sentence *to = dp_cli_sentence_add(s, "lock", 1 + (share < 1 ? share : 1));
        dp_query_print_unit(delay, sizeof delay, worst->value, "nanoseconds");
        dp_query_print_unit(duration, sizeof duration, v.merge.header.duration_ns, "nanoseconds");
        if (to) {
            if (!strncmp(place.name, "[hand-over]", 11))
                snprintf(to->text, sizeof to->text,
                         "Threads waited %s while no thread held the lock, in %s of profiles: it changes hands often.",
                         delay, duration);
            else if (*place.name == '[')
                snprintf(to->text, sizeof to->text,
                         "Threads waited %s for a lock whose holder is not known, in %s of profiles.", delay, duration);
            else
                snprintf(to->text, sizeof to->text, "%s made other threads wait %s for its lock, in %s of profiles.",
                         place.name, delay, duration);
            to->amount = worst->value;
            to->is_time = true;
            to->stack = place.stack;
            to->verb = "waits";
        }
    } else if (!status) {
        dp_query_print_unit(delay, sizeof delay, worst ? worst->value : 0, "nanoseconds");
        dp_cli_sentence_note(
            s, worst ? "no lock that made others wait more than %s" : "no lock that made others wait%.0s", delay);
    }
    dp_cli_functions_fini(&f);
    dp_query_fini(&v);
    return status;
}

/* ---- CPU time --------------------------------------------------------------------------------------------------- */

static int find_cpu(struct dp_cli_sentences *s, const struct dp_query_paths *paths)
{
    struct dp_query v;
    struct dp_cli_functions f = {.at = {0}};
    struct dp_cli_place place;
    char duration[32];
    int64_t total = 0;
    if (!dp_cli_sentence_has_kind(paths, "cpu"))
        return 0;
    int status = dp_cli_functions_read_kind(s, &v, "cpu", "cpu", &f);
    for (uint32_t row = 0; row < v.merge.model.rows.n && !status; row++)
        dp_model_merge_sum(&total, dp_query_value(&v, row));
    const struct dp_cli_function *most = status ? NULL : dp_cli_functions_largest(&f);
    double lasted = (double)v.merge.header.duration_ns, cores = lasted > 0 ? (double)total / lasted : 0;
    dp_query_print_unit(duration, sizeof duration, v.merge.header.duration_ns, "nanoseconds");
    struct dp_cli_sentence *to = NULL;
    if (most && cores >= CORES_LEAST && dp_cli_functions_describe(s, &v, most->row, &place))
        to = dp_cli_sentence_add(s, "cpu", 0.8);
    if (to) {
        snprintf(to->text, sizeof to->text, "CPU: %.2g cores on average in %s, %.0f%% of that in %s.", cores, duration,
                 100 * (double)most->value / (double)total, place.name);
        to->amount = total;
        to->is_time = true;
        to->stack = place.stack;
        to->verb = "top --kind cpu";
    } else if (!status) {
        dp_cli_sentence_note(s, "CPU %.2g cores on average", cores);
    }
    dp_cli_functions_fini(&f);
    dp_query_fini(&v);
    return status;
}

/* ---- waits that do not end -------------------------------------------------------------------------------------- */

/* Adds the sentence of a profile that tells of a wait. False: it does not. *is_end: the process ended with it. */
static bool say_stuck(struct dp_cli_sentences *s, const char *file, bool *is_end)
{
    struct dp_query_source source = {.is_quiet = true};
    bool found = false;
    *is_end = false;
    if (!dp_query_read_file(s->verb, file, DP_DECODE_LIMIT, &source)) {
        const struct dp_decode *d = &source.decode;
        *is_end = dp_model_merge_says(d, DP_COMMENT_ENDED) || dp_model_merge_says(d, DP_COMMENT_EXIT);
        for (size_t i = 0; i < d->comments.n && !found; i++) {
            size_t n, n_begin = strlen(DP_COMMENT_STUCK);
            const char *text = dp_decode_text(d, d->comments.at[i], &n);
            char line[DP_CLI_SENTENCE_BYTES], since[64], *rest;
            if (n <= n_begin || memcmp(text, DP_COMMENT_STUCK, n_begin))
                continue;
            snprintf(line, sizeof line, "%.*s", (int)(n - n_begin), text + n_begin);
            int64_t ms = strtoll(line, &rest, 10);
            struct dp_cli_sentence *to = ms > 0 && *rest == ' ' ? dp_cli_sentence_add(s, "stuck", 10) : NULL;
            if (!to)
                continue;
            found = true;
            dp_query_at_text(since, sizeof since, d->time_ns + d->duration_ns - ms * 1000000);
            snprintf(to->text, sizeof to->text, "Since %s: %.560s.", since, rest + 1);
            to->amount = ms * 1000000;
            to->is_time = true;
        }
    }
    dp_query_source_fini(&source);
    return found;
}

/* Of each process its newest block profile, and, if the process ended with that, the one before it. */
static int find_stuck(struct dp_cli_sentences *s)
{
    struct dp_query_paths paths = {.n = 0};
    int status = dp_query_paths_add_all(&paths, s->verb, s->paths, s->n_paths);
    struct dp_query_file *files = status ? NULL : calloc(paths.n + 1, sizeof *files);
    size_t n = files ? dp_query_files_sort(paths.at, paths.n, files) : 0;
    for (size_t i = 0; i < n; i++) {
        bool is_newest = !i || !dp_query_file_is_same(&files[i - 1], &files[i]), is_end;
        if (files[i].kind_id == DP_KIND_BLOCK && is_newest && !say_stuck(s, files[i].file, &is_end) && is_end &&
            i + 1 < n && dp_query_file_is_same(&files[i], &files[i + 1]))
            say_stuck(s, files[i + 1].file, &is_end);
    }
    free(files);
    dp_query_paths_fini(&paths);
    return status;
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static int by_weight(const void *a, const void *b)
{
    const struct dp_cli_sentence *x = a, *y = b;
    return (x->weight < y->weight) - (x->weight > y->weight);
}

int dp_cli_sentences_find(struct dp_cli_sentences *s)
{
    struct dp_query_paths paths = {.n = 0};
    int status = dp_query_paths_add_all(&paths, s->verb, s->paths, s->n_paths);
    if (dp_cli_sentence_has_kind(&paths, "heap") ||
        !(dp_cli_sentence_has_kind(&paths, "mutex") || dp_cli_sentence_has_kind(&paths, "block") ||
          dp_cli_sentence_has_kind(&paths, "cpu") || dp_cli_sentence_has_kind(&paths, "wall"))) {
        status = status ? status : find_leaks(s);
        status = status ? status : find_held(s);
    } else {
        dp_cli_sentence_note(s, "no heap profile");
    }
    status = status ? status : find_locks(s, &paths);
    status = status ? status : find_stuck(s);
    status = status ? status : find_cpu(s, &paths);
    status = status ? status : dp_cli_wall_sentence_find(s, &paths);
    dp_query_paths_fini(&paths);
    qsort(s->at, s->n, sizeof *s->at, by_weight);
    struct dp_cli_sentence *to = status ? NULL : dp_cli_sentence_add(s, s->n ? "looked" : "nothing", 0);
    if (to)
        snprintf(to->text, sizeof to->text, "%s%.600s.", s->n > 1 ? "Also looked at: " : "Nothing to say: ", s->looked);
    return status;
}

void dp_cli_sentences_fini(struct dp_cli_sentences *s)
{
    dp_query_stacks_fini(&s->stacks);
}
