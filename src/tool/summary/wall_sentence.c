/* SPDX-License-Identifier: MIT */
/*
 * tool/summary/wall_sentence.c - says in one sentence where threads spent their time: how many there were at a time,
 * which share of it they were in each state, and for which function's lock they waited most, and who held it.
 *
 * Threads that wait for work are left out. The holder comes from the chain profiles, of waits of that function.
 */
#include "tool/summary/wall_sentence.h"

#include "tool/summary/sentence_parts.h"
#include "profile/kinds.h"
#include "tool/query/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_LEAST 0.02 /* on average; less is idle */
#define LOCK_SHARE    0.05 /* of the time: less has no sentence's part about its function */

enum { RUNNING, RUNNABLE, LOCK, IO, SLEEP, FAULT, UNKNOWN, STATES };
static const struct {
    const char *label, *words;
} states[STATES] = {{"running", "run"},
                    {"runnable", "wait for a processor"},
                    {"lock", "wait for locks"},
                    {"io", "wait for io"},
                    {"sleep", "sleep"},
                    {"fault", "wait for memory"},
                    {"unknown", "wait, not known for what"}};

static int refuse_memory(const struct dp_summary_sentences *s)
{
    dp_query_print_error(s->verb, "out of memory");
    return DP_EXIT_FAILED;
}

/* Sums the time by state. *all: of all states. 0, or DP_EXIT_FAILED. */
static int sum_states(struct dp_query *v, int64_t *sums, int64_t *all)
{
    char number[32];
    for (uint32_t row = 0; row < v->merge.model.rows.n; row++) {
        int shown = dp_query_row(v, row);
        if (shown < 0)
            return shown;
        const char *state = shown ? dp_query_label_value(&v->merge.model, row, "state", number) : NULL;
        if (shown)
            dp_model_merge_sum(all, dp_query_value(v, row));
        for (unsigned i = 0; i < STATES && state; i++)
            if (!strcmp(state, states[i].label))
                dp_model_merge_sum(&sums[i], dp_query_value(v, row));
    }
    return 0;
}

/* The function that waits for locks most, and its share of their time. */
static int find_waiter(struct dp_query *v, struct dp_summary_functions *f)
{
    char number[32];
    for (uint32_t row = 0; row < v->merge.model.rows.n; row++) {
        const char *state = dp_query_label_value(&v->merge.model, row, "state", number);
        bool waits = state && !strcmp(state, states[LOCK].label);
        int shown = waits ? dp_query_row(v, row) : 0;
        int err = shown > 0 && v->stack.n ? dp_summary_functions_add(f, v, row, dp_query_value(v, row), true) : 0;
        if (shown < 0 || err)
            return shown < 0 ? shown : err;
    }
    return 0;
}

/* The function that held the locks which `waiter` waited for most; "" if none is known. */
static int find_holder(struct dp_summary_sentences *s, const char *waiter, char holder[DP_SUMMARY_PLACE_BYTES])
{
    struct dp_query v;
    struct dp_summary_functions f = {.at = {0}};
    int status = dp_summary_sentences_query(&v, s, "delay", DP_QUERY_AT_USUAL);
    v.kind = "chain";
    if (!status)
        status = dp_query_read(&v, s->paths, s->n_paths);
    for (uint32_t row = 0; row < v.merge.model.rows.n && !status; row++) {
        int64_t value = dp_query_value(&v, row);
        bool is_his = value && dp_query_chain(&v, row, DP_QUERY_WAITER) > 0 && v.stack.n &&
                      !strcmp(dp_summary_functions_name(&v), waiter);
        if (is_his && dp_query_chain(&v, row, DP_QUERY_HOLDER) > 0 && v.stack.n &&
            dp_summary_functions_add(&f, &v, row, value, true))
            status = refuse_memory(s);
    }
    const struct dp_summary_function *most = status ? NULL : dp_summary_functions_largest(&f);
    *holder = '\0';
    if (most && *dp_strings_at(&f.names, (uint32_t)(most - f.at.at) + 1) != '[' &&
        dp_query_chain(&v, most->row, DP_QUERY_HOLDER) > 0)
        dp_summary_place_of_stack(holder, DP_SUMMARY_PLACE_BYTES, &v);
    dp_summary_functions_fini(&f);
    dp_query_fini(&v);
    return status;
}

struct lock_words {
    char place[DP_SUMMARY_PLACE_BYTES], holder[DP_SUMMARY_PLACE_BYTES];
    uint32_t stack;
};

static int describe_lock(struct dp_summary_sentences *s, const struct dp_query_paths *paths, struct dp_query *v,
                         struct lock_words *lock)
{
    struct dp_summary_functions f = {.at = {0}};
    struct dp_summary_place place;
    int status = find_waiter(v, &f) ? refuse_memory(s) : 0;
    const struct dp_summary_function *most = status ? NULL : dp_summary_functions_largest(&f);
    if (most && dp_summary_place_of_row(&place, &s->stacks, v, most->row)) {
        memcpy(lock->place, place.name, sizeof lock->place);
        lock->stack = place.stack;
        if (dp_summary_sentences_have_kind(paths, "chain"))
            status = find_holder(s, dp_strings_at(&f.names, (uint32_t)(most - f.at.at) + 1), lock->holder);
    }
    dp_summary_functions_fini(&f);
    return status;
}

static void write_sentence(struct dp_summary_sentence *to, double threads, const int64_t *sums, int64_t all,
                           const struct lock_words *lock)
{
    size_t room = sizeof to->text;
    int n = snprintf(to->text, room, "Threads: of %.2g thread-seconds a second, idle ones aside,", threads);
    for (unsigned i = 0; i < STATES; i++) {
        double percent = 100 * (double)sums[i] / (double)all;
        if (percent < 0.5)
            continue;
        n += snprintf(to->text + n, room - (size_t)n, " %.0f%% %s", percent, states[i].words);
        if (i == LOCK && *lock->place)
            n += snprintf(to->text + n, room - (size_t)n, " (most in %.150s%s%.150s)", lock->place,
                          *lock->holder ? ", held by " : "", lock->holder);
        n += snprintf(to->text + n, room - (size_t)n, ",");
    }
    to->text[n - 1] = '.';
}

int dp_summary_sentences_wall(struct dp_summary_sentences *s, const struct dp_query_paths *paths)
{
    struct dp_query v;
    struct lock_words lock = {.stack = DP_STRINGS_NONE};
    int64_t sums[STATES] = {0}, all = 0;
    if (!dp_summary_sentences_have_kind(paths, "wall"))
        return 0;
    int status = dp_summary_sentences_query(&v, s, "wall", DP_QUERY_AT_USUAL);
    v.kind = "wall";
    v.without_idle = true;
    if (!status)
        status = dp_query_read(&v, s->paths, s->n_paths);
    if (!status && sum_states(&v, sums, &all))
        status = refuse_memory(s);
    double lasted = status ? 0 : (double)dp_model_merge_covered_ns(&v.merge);
    double threads = lasted > 0 ? (double)all / lasted : 0;
    if (!status && (double)sums[LOCK] >= LOCK_SHARE * (double)all && all)
        status = describe_lock(s, paths, &v, &lock);
    struct dp_summary_sentence *to =
        !status && threads >= THREADS_LEAST ? dp_summary_sentences_add(s, "wall", 0.7) : NULL;
    if (to) {
        write_sentence(to, threads, sums, all, &lock);
        to->amount = all;
        to->is_time = true;
        to->stack = lock.stack;
        to->verb = "top --kind wall --no-idle";
    } else if (!status) {
        dp_summary_sentences_looked(s, "threads all but idle");
    }
    dp_query_fini(&v);
    return status;
}
