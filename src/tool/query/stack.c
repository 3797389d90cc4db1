/* SPDX-License-Identifier: MIT */
/*
 * tool/query/stack.c - selects the frames of a row to show: applies --focus and --ignore, removes frames by --hide,
 * folds functions that only pass an allocation or a lock on into their caller, and leaves out a language's own library
 * (std::, core::) and its interpreter. CPU time in the profiler's hooks becomes one frame.
 *
 * As in pprof, --focus and --ignore match any function, file or library of a stack, also hidden or folded ones; and a
 * stack without any frame left is not shown.
 */
#include "tool/query/query.h"
#include "profile/kinds.h"

#include <errno.h>
#include <string.h>

static bool matches(const struct dp_query *v, int filter, uint32_t frame)
{
    const struct dp_query_naming_frames *f = &v->frames;
    const struct dp_query_naming_frame *at = &f->at.at[frame];
    const regex_t *regex = &v->filters[filter];
    return !regexec(regex, dp_query_naming_frames_text(f, at->name), 0, NULL, 0) ||
           (at->file && !regexec(regex, dp_query_naming_frames_text(f, at->file), 0, NULL, 0)) ||
           (at->library && !regexec(regex, dp_query_naming_frames_text(f, at->library), 0, NULL, 0));
}

static bool any_matches(const struct dp_query *v, int filter)
{
    for (size_t i = 0; i < v->stack.n; i++)
        if (matches(v, filter, v->stack.at[i]))
            return true;
    return false;
}

static void hide(struct dp_query *v)
{
    size_t n = 0;
    for (size_t i = 0; i < v->stack.n; i++)
        if (!matches(v, 2, v->stack.at[i]))
            v->stack.at[n++] = v->stack.at[i];
    v->stack.n = n;
}

/*
 * Places without a name that such a function calls are folded too, and so is what an interpreter does for a function of
 * its language. The last frame stays in any case.
 */
static void fold(struct dp_query *v)
{
    const struct dp_query_naming_frame *frames = v->frames.at.at;
    size_t n_folded = 0;
    for (size_t i = 0; i + 1 < v->stack.n; i++) {
        const struct dp_query_naming_frame *frame = &frames[v->stack.at[i]];
        bool passes = frame->is_passing || frame->is_library;
        if (!passes && (frame->is_runtime || (!frame->is_unnamed && !frame->is_interpreter)))
            break;
        if (passes || frames[v->stack.at[i + 1]].is_runtime)
            n_folded = i + 1;
    }
    for (size_t i = n_folded; i < v->stack.n; i++)
        v->stack.at[i - n_folded] = v->stack.at[i];
    v->stack.n -= n_folded;
}

/* Whether a stack may begin without the frame: code that starts a program or a thread, or the interpreter itself. */
static bool is_start(const struct dp_query_naming_frame *frame)
{
    return frame->is_interpreter || frame->is_foreign;
}

/*
 * Removes native frames between two frames of a language, where its interpreter calls itself, and those that start the
 * interpreter. Frames of a program that embeds it stay.
 */
static void hide_interpreter(struct dp_query *v)
{
    const struct dp_query_naming_frame *frames = v->frames.at.at;
    size_t leaf = 0, root = v->stack.n, start, n;
    while (leaf < root && !frames[v->stack.at[leaf]].is_runtime)
        leaf++;
    while (root > leaf && !frames[v->stack.at[root - 1]].is_runtime)
        root--;
    for (start = root; start < v->stack.n && is_start(&frames[v->stack.at[start]]);)
        start++;
    bool is_embedded = start < v->stack.n;
    n = leaf;
    for (size_t i = leaf; i < v->stack.n; i++) {
        const struct dp_query_naming_frame *frame = &frames[v->stack.at[i]];
        if (frame->is_runtime || !frame->library || (i >= root && is_embedded))
            v->stack.at[n++] = v->stack.at[i];
    }
    v->stack.n = n;
}

/* Removes the functions of a language's own library, if any other function is left. */
static void hide_library(struct dp_query *v)
{
    const struct dp_query_naming_frame *frames = v->frames.at.at;
    size_t n = 0;
    for (size_t i = 0; i < v->stack.n; i++)
        if (!frames[v->stack.at[i]].is_library)
            v->stack.at[n++] = v->stack.at[i];
    if (n)
        v->stack.n = n;
}

static void reverse(uint32_t *frames, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        uint32_t frame = frames[i];
        frames[i] = frames[n - 1 - i];
        frames[n - 1 - i] = frame;
    }
}

/*
 * The first n locations are a holder's, whose stack is the other way round, so the functions that were inlined at a
 * location stand behind the function that has them. The profile's own lines are in this order already. The frames of
 * these locations are appended before.
 */
static void turn_holder(struct dp_query *v, const uint32_t *locations, uint32_t n)
{
    uint32_t first;
    for (size_t i = 0, at = 0; i < n; i++) {
        int n_frames = dp_query_naming_frames_of(&v->frames, locations[i], &first);
        if (n_frames > 1 && dp_query_naming_turns_in_holder(&v->frames, first))
            reverse(v->stack.at + at, (size_t)n_frames);
        at += n_frames > 0 ? (size_t)n_frames : 0;
    }
}

/* Appends the frames of a stack. */
static int collect(struct dp_query *v, const uint32_t *locations, uint32_t depth)
{
    for (uint32_t i = 0; i < depth; i++) {
        uint32_t first;
        int n = dp_query_naming_frames_of(&v->frames, locations[i], &first);
        if (n == 1 && dp_query_naming_is_held_by(&v->frames, first))
            turn_holder(v, locations, i);
        uint32_t *to = n < 0 ? NULL : dp_vec_room(&v->stack, (size_t)n);
        if (!to)
            return -ENOMEM;
        for (int j = 0; j < n; j++)
            to[j] = first + (uint32_t)j;
        v->stack.n += (size_t)n;
    }
    if (depth)
        return 0;
    uint32_t none = dp_query_naming_frames_named(&v->frames, "[no stack]"), *to = dp_vec_push(&v->stack);
    if (none == DP_STRINGS_NONE || !to)
        return -ENOMEM;
    *to = none;
    return 0;
}

static bool passes(const struct dp_query *v)
{
    return (!v->has_filter[0] || any_matches(v, 0)) && (!v->has_filter[1] || !any_matches(v, 1));
}

/* Frames of the profiler's hooks at the leaf become the frame of its own time; others are removed. 0 or -ENOMEM. */
static int fold_profiler(struct dp_query *v)
{
    size_t n = 0, n_leaf = 0;
    while (n_leaf < v->stack.n && v->frames.at.at[v->stack.at[n_leaf]].is_profiler)
        n_leaf++;
    uint32_t own = n_leaf ? dp_query_naming_frames_named(&v->frames, DP_QUERY_PROFILER) : 0;
    if (own == DP_STRINGS_NONE)
        return -ENOMEM;
    if (n_leaf)
        v->stack.at[n++] = own;
    for (size_t i = n_leaf; i < v->stack.n; i++)
        if (!v->frames.at.at[v->stack.at[i]].is_profiler)
            v->stack.at[n++] = v->stack.at[i];
    v->stack.n = n;
    return 0;
}

static int shorten(struct dp_query *v)
{
    if (v->has_filter[2])
        hide(v);
    if (!v->raw) {
        int err = fold_profiler(v);
        if (err)
            return err;
        fold(v);
        hide_library(v);
        hide_interpreter(v);
    }
    return v->stack.n > 0;
}

/* The stack becomes one frame, with the name of the row's process. 1, or -ENOMEM. */
static int show_process(struct dp_query *v, uint32_t row)
{
    char number[32];
    const char *name = dp_query_label_value(&v->merge.model, row, DP_QUERY_PROCESS, number);
    uint32_t frame = dp_query_naming_frames_named(&v->frames, name ? name : "[no process]");
    dp_vec_clear(&v->stack);
    uint32_t *to = frame == DP_STRINGS_NONE ? NULL : dp_vec_push(&v->stack);
    if (to)
        *to = frame;
    return to ? 1 : -ENOMEM;
}

int dp_query_row(struct dp_query *v, uint32_t row)
{
    const struct dp_model *m = &v->merge.model;
    if (!dp_query_has_labels(v, row))
        return 0;
    dp_vec_clear(&v->stack);
    int err = collect(v, dp_model_stack(m, row), dp_model_depth(m, row));
    if (err)
        return err;
    int shown = passes(v) ? shorten(v) : 0;
    return shown > 0 && v->shows_processes ? show_process(v, row) : shown;
}

/* The position of the frame between waiter and holder; the stack's depth: there is none. */
static size_t find_mark(const struct dp_query *v, bool *is_hand_over)
{
    size_t at = 0;
    for (*is_hand_over = false; at < v->stack.n; at++) {
        const char *name = dp_query_naming_frames_text(&v->frames, v->frames.at.at[v->stack.at[at]].name);
        *is_hand_over = !strcmp(name, DP_CHAIN_HAND_OVER);
        if (*is_hand_over || dp_query_naming_is_held_by(&v->frames, v->stack.at[at]))
            break;
    }
    return at;
}

/* Keeps n frames from `first` on. */
static void keep_frames(struct dp_query *v, size_t first, size_t n)
{
    memmove(v->stack.at, v->stack.at + first, n * sizeof *v->stack.at);
    v->stack.n = n;
}

int dp_query_chain(struct dp_query *v, uint32_t row, enum dp_query_end end)
{
    const struct dp_model *m = &v->merge.model;
    bool is_hand_over;
    if (!dp_query_has_labels(v, row))
        return 0;
    dp_vec_clear(&v->stack);
    int err = collect(v, dp_model_stack(m, row), dp_model_depth(m, row));
    if (err)
        return err;
    size_t mark = find_mark(v, &is_hand_over);
    if (mark == v->stack.n || !passes(v))
        return 0;
    if (end == DP_QUERY_WAITER) {
        keep_frames(v, mark + 1, v->stack.n - mark - 1);
    } else {
        keep_frames(v, 0, mark + is_hand_over);
        reverse(v->stack.at, v->stack.n);
    }
    return shorten(v);
}
