/* SPDX-License-Identifier: MIT */
/*
 * tool/summary/sentences_cpu.c - says who used CPU time, in one sentence.
 *
 * The time of a sample belongs to the first function of the user's own code with a name: what libraries and the kernel
 * do for it is its time. The function with most of it is named. If its share is small, the end of the hot path is named
 * too: the deepest own function that, with all that it calls, has half of the time. The function in which a program or
 * a thread begins is on every stack and says little: what libraries do for it is named beside a function that it calls.
 */
#include "tool/summary/sentence_parts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CORES_LEAST    0.02      /* used on average; less is idle */
#define TOTAL_LEAST    100000000 /* ns: less is few samples */
#define FLAT_ENOUGH    0.3       /* of the time: a function that has so much says enough */
#define HOT_SHARE      0.5       /* of the time: below the end of the hot path is so much */
#define LIBRARIES_SAID 0.25      /* of the time, in stacks without own code; also of an interpreter */
#define PROFILER_SAID  0.01
#define BESIDE_SAID    0.05 /* of the time: a function that is named beside the beginning of the program */

struct user {
    int64_t flat, libraries; /* libraries: of flat, what was not in the function itself */
    int64_t cum, best_flat, best_cum;
    uint32_t flat_row, flat_at, cum_row, cum_at;
    int64_t beginning; /* of cum, where it is the own function nearest to the root */
    bool is_place;     /* OBJECT+0xPLACE */
    double depth;      /* sum of its distance from the root, by value */
    uint32_t last_row; /* that it was counted in, + 1 */
};

struct users {
    struct dp_strings names;
    DP_VEC(struct user) at; /* by name - 1 */
    int64_t total, profiler, libraries;
    int64_t interpreter; /* its own code, with no function of its language on the stack */
};

static const struct dp_query_naming_frame *frame_at(const struct dp_query *v, size_t at)
{
    return &v->frames.at.at[v->stack.at[at]];
}

static struct user *user_of(struct users *u, const struct dp_query *v, size_t at)
{
    const char *name = dp_query_naming_frames_text(&v->frames, frame_at(v, at)->name);
    uint32_t number = dp_strings_add(&u->names, name, strlen(name));
    if (number == DP_STRINGS_NONE || !number)
        return NULL;
    while (u->at.n < number) {
        struct user *fresh = dp_vec_push(&u->at);
        if (!fresh)
            return NULL;
        *fresh = (struct user){.flat = 0};
    }
    return &u->at.at[number - 1];
}

/* Whether the frame is the user's own code, as the row's stack shows it. */
struct owning {
    bool has_runtime, has_named;
};

static bool is_own(const struct owning *o, const struct dp_query_naming_frame *f)
{
    return !f->is_foreign && !f->is_interpreter && (!o->has_runtime || f->is_runtime) &&
           (!o->has_named || !f->is_unnamed);
}

static struct owning owning_of(const struct dp_query *v)
{
    struct owning o = {.has_named = false};
    for (size_t i = 0; i < v->stack.n; i++)
        o.has_runtime |= frame_at(v, i)->is_runtime && !frame_at(v, i)->is_foreign;
    for (size_t i = 0; i < v->stack.n; i++) {
        const struct dp_query_naming_frame *f = frame_at(v, i);
        o.has_named |= !f->is_unnamed && !f->is_foreign && (!o.has_runtime || f->is_runtime);
    }
    return o;
}

/* Whether the query's stack is in an interpreter, and does not tell which functions of its language ran. */
static bool is_interpreter(const struct dp_query *v)
{
    bool found = false;
    for (size_t i = 0; i < v->stack.n; i++) {
        if (frame_at(v, i)->is_runtime)
            return false;
        found |= frame_at(v, i)->is_interpreter;
    }
    return found;
}

static int count_row(struct users *u, struct dp_query *v, uint32_t row, int64_t value)
{
    struct owning o = owning_of(v);
    struct user *first = NULL, *beginning = NULL;
    for (size_t i = 0; i < v->stack.n; i++) {
        struct user *to = is_own(&o, frame_at(v, i)) ? user_of(u, v, i) : NULL;
        if (!to)
            continue;
        to->is_place = frame_at(v, i)->is_unnamed;
        if (!first) {
            first = to;
            dp_model_merge_sum(&to->flat, value);
            dp_model_merge_sum(&to->libraries, i ? value : 0);
            if (value > to->best_flat) {
                to->best_flat = value;
                to->flat_row = row;
                to->flat_at = (uint32_t)i;
            }
        }
        beginning = to;
        if (to->last_row == row + 1)
            continue; /* it calls itself */
        to->last_row = row + 1;
        dp_model_merge_sum(&to->cum, value);
        to->depth += (double)value * (double)(v->stack.n - i);
        if (value > to->best_cum) {
            to->best_cum = value;
            to->cum_row = row;
            to->cum_at = (uint32_t)i;
        }
    }
    if (beginning)
        dp_model_merge_sum(&beginning->beginning, value);
    else
        dp_model_merge_sum(is_interpreter(v) ? &u->interpreter : &u->libraries, value);
    return 0;
}

static int count_all(struct users *u, struct dp_query *v)
{
    if (dp_strings_add(&u->names, "", 0) == DP_STRINGS_NONE)
        return -ENOMEM;
    for (uint32_t row = 0; row < v->merge.model.rows.n; row++) {
        int64_t value = dp_query_value(v, row);
        int shown = value > 0 ? dp_query_row(v, row) : 0;
        if (shown < 0)
            return shown;
        if (!shown || !v->stack.n)
            continue;
        const char *leaf = dp_query_naming_frames_text(&v->frames, frame_at(v, 0)->name);
        dp_model_merge_sum(&u->total, value);
        if (!strcmp(leaf, DP_QUERY_PROFILER))
            dp_model_merge_sum(&u->profiler, value);
        else if (*leaf != '[' && count_row(u, v, row, value))
            return -ENOMEM;
    }
    return 0;
}

static bool is_beginning(const struct user *it)
{
    return 2 * it->beginning > it->cum;
}

/* How much a function's own time counts: a place without a name tells less. */
static int64_t rank(const struct user *it)
{
    return it->is_place ? it->flat / 2 : it->flat;
}

/* The function with most time of its own; NULL: none. */
static const struct user *busiest(const struct users *u, bool with_beginnings)
{
    const struct user *found = NULL;
    for (size_t i = 0; i < u->at.n; i++)
        if (rank(&u->at.at[i]) > (found ? rank(found) : 0) && (with_beginnings || !is_beginning(&u->at.at[i])))
            found = &u->at.at[i];
    return found;
}

/* The deepest own function with half of the time; NULL: there is none, or it is where the program begins. */
static const struct user *end_of_hot_path(const struct users *u)
{
    const struct user *found = NULL;
    for (size_t i = 0; i < u->at.n; i++) {
        const struct user *it = &u->at.at[i];
        if (is_beginning(it) || (double)it->cum < HOT_SHARE * (double)u->total)
            continue;
        if (!found || it->cum < found->cum || (it->cum == found->cum && it->depth > found->depth))
            found = it;
    }
    return found;
}

/* Names the frame of a row. False: out of memory. */
static bool describe(struct dp_summary_sentences *s, struct dp_query *v, uint32_t row, size_t at,
                     struct dp_summary_place *place)
{
    if (dp_query_row(v, row) < 0 || at >= v->stack.n)
        return false;
    dp_summary_place_text(place->name, sizeof place->name, v, at);
    place->stack = dp_query_stacks_add(&s->stacks, v, at);
    return place->stack != DP_STRINGS_NONE;
}

static void add_text(struct dp_summary_sentence *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_text(struct dp_summary_sentence *to, const char *format, ...)
{
    size_t n = strlen(to->text);
    va_list args;
    va_start(args, format);
    vsnprintf(to->text + n, sizeof to->text - n, format, args);
    va_end(args);
}

/* What is said of own functions. */
static void say_own(struct dp_summary_sentences *s, struct dp_query *v, const struct users *u,
                    struct dp_summary_sentence *to)
{
    const struct user *flat = busiest(u, true), *hot = end_of_hot_path(u), *beside = NULL;
    double total = (double)u->total, percent = 100 / total;
    struct dp_summary_place place, other;
    if (!flat || !describe(s, v, flat->flat_row, flat->flat_at, &place))
        return;
    bool is_in_libraries = 2 * flat->libraries > flat->flat;
    if (is_in_libraries && is_beginning(flat))
        beside = busiest(u, false);
    if (hot == flat || (double)flat->flat >= FLAT_ENOUGH * total)
        hot = NULL;
    to->stack = place.stack;
    if (beside && (double)beside->flat >= BESIDE_SAID * total &&
        describe(s, v, beside->flat_row, beside->flat_at, &other)) {
        add_text(to, ", %.0f%% of that in %s, %.0f%% in library calls of %s", percent * (double)beside->flat,
                 other.name, percent * (double)flat->flat, place.name);
        to->stack = other.stack;
    } else if (hot && describe(s, v, hot->cum_row, hot->cum_at, &other)) {
        add_text(to, ", %.0f%% of that in %s and what it calls, %.0f%% in %s alone", percent * (double)hot->cum,
                 other.name, percent * (double)flat->flat, place.name);
    } else {
        add_text(to, ", %.0f%% of that in %s%s", percent * (double)flat->flat,
                 is_in_libraries ? "library calls of " : "", place.name);
    }
}

static void say_cpu(struct dp_summary_sentences *s, struct dp_query *v, const struct users *u, double cores,
                    const char *duration)
{
    struct dp_summary_sentence *to = dp_summary_sentences_add(s, "cpu", 0.8);
    double total = (double)u->total, percent = 100 / total;
    if (!to)
        return;
    add_text(to, "CPU: %.2g cores on average in %s", cores, duration);
    say_own(s, v, u, to);
    if ((double)u->libraries >= LIBRARIES_SAID * total)
        add_text(to, ", %.0f%% in libraries alone", percent * (double)u->libraries);
    if ((double)u->interpreter >= LIBRARIES_SAID * total)
        add_text(to, ", %.0f%% in the interpreter, in no known function of its language",
                 percent * (double)u->interpreter);
    if ((double)u->profiler >= PROFILER_SAID * total)
        add_text(to, "; deltaprof itself: %.0f%%", percent * (double)u->profiler);
    add_text(to, ".");
    to->amount = u->total;
    to->is_time = true;
    to->verb = "top --kind cpu";
}

int dp_summary_sentences_cpu(struct dp_summary_sentences *s)
{
    struct dp_query v;
    struct users u = {.total = 0};
    char duration[32];
    int status = dp_summary_sentences_query(&v, s, "cpu", DP_QUERY_AT_USUAL);
    v.kind = "cpu";
    if (!status)
        status = dp_query_read(&v, s->paths, s->n_paths);
    if (!status && count_all(&u, &v)) {
        dp_query_print_error(s->verb, "out of memory");
        status = DP_EXIT_FAILED;
    }
    int64_t covered_ns = status ? 0 : dp_model_merge_covered_ns(&v.merge);
    double cores = covered_ns > 0 ? (double)u.total / (double)covered_ns : 0;
    dp_summary_sentences_time(duration, sizeof duration, covered_ns);
    if (!status && cores >= CORES_LEAST && u.total >= TOTAL_LEAST)
        say_cpu(s, &v, &u, cores, duration);
    else if (!status)
        dp_summary_sentences_looked(s, "CPU %.2g cores on average", cores);
    dp_summary_sentences_note_symbols(s, &v);
    dp_strings_fini(&u.names);
    dp_vec_fini(&u.at);
    dp_query_fini(&v);
    return status;
}
