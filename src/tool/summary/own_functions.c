/* SPDX-License-Identifier: MIT */
/* tool/summary/own_functions.c - sums the rows of a query by the user's own functions, and says where these are. */
#include "tool/summary/own_functions.h"

#include "tool/leaks/series.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct dp_query_naming_frame *frame_at(const struct dp_query *v, size_t at)
{
    return &v->frames.at.at[v->stack.at[at]];
}

const char *dp_summary_functions_name(const struct dp_query *v)
{
    return dp_query_naming_frames_text(&v->frames, frame_at(v, dp_leaks_shown_frame(v))->name);
}

int dp_summary_functions_add(struct dp_summary_functions *f, const struct dp_query *v, uint32_t row, int64_t value,
                             bool creates)
{
    const char *name = dp_summary_functions_name(v);
    if (dp_strings_add(&f->names, "", 0) == DP_STRINGS_NONE)
        return -ENOMEM;
    uint32_t number = dp_strings_add(&f->names, name, strlen(name));
    if (number == DP_STRINGS_NONE)
        return -ENOMEM;
    while (f->at.n < number) {
        struct dp_summary_function *to = dp_vec_push(&f->at);
        if (!to)
            return -ENOMEM;
        *to = (struct dp_summary_function){.value = 0};
    }
    struct dp_summary_function *to = number ? &f->at.at[number - 1] : NULL;
    if (!to)
        return 0;
    dp_model_merge_sum(&to->value, value);
    if (creates && value > to->best) {
        to->best = value;
        to->row = row;
    }
    return 0;
}

int dp_summary_functions_count(struct dp_summary_functions *f, struct dp_query *v, int sign, bool creates)
{
    for (uint32_t row = 0; row < v->merge.model.rows.n; row++) {
        int64_t value = dp_query_value(v, row);
        int shown = value ? dp_query_row(v, row) : 0;
        int err = shown > 0 && v->stack.n ? dp_summary_functions_add(f, v, row, sign * value, creates) : 0;
        if (shown < 0 || err)
            return shown < 0 ? shown : err;
    }
    return 0;
}

const struct dp_summary_function *dp_summary_functions_largest(const struct dp_summary_functions *f)
{
    const struct dp_summary_function *found = NULL;
    for (size_t i = 0; i < f->at.n; i++)
        if (f->at.at[i].best && f->at.at[i].value > (found ? found->value : 0))
            found = &f->at.at[i];
    return found;
}

void dp_summary_functions_fini(struct dp_summary_functions *f)
{
    dp_strings_fini(&f->names);
    dp_vec_fini(&f->at);
}

/* ---- places ----------------------------------------------------------------------------------------------------- */

/* The last part of a qualified name and the part before it, without template arguments. False: it has one part. */
static bool split_name(const char *name, const char **last, const char **before, size_t *n_before)
{
    const char *part = name, *previous = NULL;
    int depth = 0;
    for (const char *at = name; *at; at++) {
        depth += *at == '<' || *at == '(' || *at == '{';
        depth -= (*at == '>' || *at == ')' || *at == '}') && depth > 0;
        bool is_colons = at[0] == ':' && at[1] == ':';
        if (depth || (*at != '.' && !is_colons))
            continue;
        previous = part;
        part = at + 1 + is_colons;
        at += is_colons;
    }
    *last = part;
    *before = previous;
    *n_before = previous ? strcspn(previous, "<(:.") : 0;
    return previous != NULL;
}

/* C++: X::X, Rust: X::new, Python: X.__init__. */
static bool is_constructor(const char *name)
{
    const char *last, *before;
    size_t n_before;
    if (!split_name(name, &last, &before, &n_before))
        return false;
    return !strcmp(last, "new") || !strcmp(last, "__init__") ||
           (n_before && strcspn(last, "<(") == n_before && !strncmp(last, before, n_before));
}

static size_t place_text(char *to, size_t n_bytes, const struct dp_query *v, size_t at)
{
    const struct dp_query_naming_frame *f = frame_at(v, at);
    const char *file = f->file ? dp_query_naming_frames_text(&v->frames, f->file) : "", *slash = strrchr(file, '/');
    int n = snprintf(to, n_bytes, "%.120s", dp_query_naming_frames_text(&v->frames, f->name));
    if (*file && f->line > 0)
        n += snprintf(to + n, n_bytes - (size_t)n, " (%.40s:%lld)", slash ? slash + 1 : file, (long long)f->line);
    return (size_t)n;
}

void dp_summary_place_text(char *to, size_t n_bytes, const struct dp_query *v, size_t at)
{
    size_t n = place_text(to, n_bytes, v, at), caller = at + 1;
    const char *name = dp_query_naming_frames_text(&v->frames, frame_at(v, at)->name);
    if (!is_constructor(name))
        return;
    while (caller < v->stack.n && is_constructor(dp_query_naming_frames_text(&v->frames, frame_at(v, caller)->name)))
        caller++;
    if (caller == v->stack.n || frame_at(v, caller)->is_foreign || frame_at(v, caller)->is_unnamed)
        return;
    n += (size_t)snprintf(to + n, n_bytes - n, " in ");
    place_text(to + n, n_bytes - n, v, caller);
}

void dp_summary_place_of_stack(char *to, size_t n_bytes, const struct dp_query *v)
{
    dp_summary_place_text(to, n_bytes, v, dp_leaks_shown_frame(v));
}

bool dp_summary_place_of_row(struct dp_summary_place *place, struct dp_query_stacks *stacks, struct dp_query *v,
                             uint32_t row)
{
    if (dp_query_row(v, row) < 0 || !v->stack.n)
        return false;
    size_t at = dp_leaks_shown_frame(v);
    dp_summary_place_text(place->name, sizeof place->name, v, at);
    place->stack = dp_query_stacks_add(stacks, v, at);
    return place->stack != DP_STRINGS_NONE;
}
