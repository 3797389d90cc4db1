/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/functions.c - sums a kind of profile by the first function of the user's own code, for sentences about it.
 */
#include "tool/cli/functions.h"

#include "tool/leaks/series.h"
#include "tool/query/print.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct dp_cli_sentence *dp_cli_sentence_add(struct dp_cli_sentences *s, const char *kind, double weight)
{
    if (s->n == DP_CLI_SENTENCES_MAX)
        return NULL;
    s->at[s->n] = (struct dp_cli_sentence){.kind = kind, .amount = -1, .stack = DP_STRINGS_NONE, .weight = weight};
    return &s->at[s->n++];
}

void dp_cli_sentence_note(struct dp_cli_sentences *s, const char *format, ...)
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

int dp_cli_sentence_begin(struct dp_query *v, const struct dp_cli_sentences *s, const char *type, int at)
{
    int status = dp_query_init(v, s->verb, 1);
    v->limit_bytes = s->limit_bytes;
    v->type_name = type;
    v->at = at;
    return status;
}

bool dp_cli_sentence_has_kind(const struct dp_query_paths *paths, const char *kind)
{
    bool found = false;
    for (size_t i = 0; i < paths->n && !found; i++) {
        struct dp_query_file name;
        found = dp_query_file_parse(paths->at[i], &name) && name.n_kind == strlen(kind) &&
                !memcmp(name.kind, kind, name.n_kind);
    }
    return found;
}

/* The first frame of the user's own code in v->stack, else the leaf. */
static size_t own_frame(const struct dp_query *v)
{
    size_t own = dp_leaks_own_frame(v);
    return own < v->stack.n ? own : 0;
}

const char *dp_cli_functions_name(const struct dp_query *v)
{
    return dp_query_naming_frames_text(&v->frames, v->frames.at.at[v->stack.at[own_frame(v)]].name);
}

int dp_cli_functions_add(struct dp_cli_functions *f, const struct dp_query *v, uint32_t row, int64_t value,
                         bool creates)
{
    const char *name = dp_cli_functions_name(v);
    uint32_t number = dp_strings_add(&f->names, "", 0) == DP_STRINGS_NONE
                          ? DP_STRINGS_NONE
                          : dp_strings_add(&f->names, name, strlen(name));
    if (number == DP_STRINGS_NONE)
        return -ENOMEM;
    while (f->at.n < number) {
        struct dp_cli_function *to = dp_vec_push(&f->at);
        if (!to)
            return -ENOMEM;
        *to = (struct dp_cli_function){.value = 0};
    }
    struct dp_cli_function *to = number ? &f->at.at[number - 1] : NULL;
    if (!to)
        return 0;
    dp_model_merge_sum(&to->value, value);
    if (creates && value > to->best) {
        to->best = value;
        to->row = row;
    }
    return 0;
}

int dp_cli_functions_count(struct dp_cli_functions *f, struct dp_query *v, int sign, bool creates)
{
    for (uint32_t row = 0; row < v->merge.model.rows.n; row++) {
        int64_t value = dp_query_value(v, row);
        int shown = value ? dp_query_row(v, row) : 0;
        int err = shown > 0 && v->stack.n ? dp_cli_functions_add(f, v, row, sign * value, creates) : 0;
        if (shown < 0 || err)
            return shown < 0 ? shown : err;
    }
    return 0;
}

const struct dp_cli_function *dp_cli_functions_largest(const struct dp_cli_functions *f)
{
    const struct dp_cli_function *found = NULL;
    for (size_t i = 0; i < f->at.n; i++)
        if (f->at.at[i].best && f->at.at[i].value > (found ? found->value : 0))
            found = &f->at.at[i];
    return found;
}

bool dp_cli_functions_describe(struct dp_cli_sentences *s, struct dp_query *v, uint32_t row, struct dp_cli_place *place)
{
    if (dp_query_row(v, row) < 0 || !v->stack.n)
        return false;
    size_t at = own_frame(v);
    const struct dp_query_naming_frame *f = &v->frames.at.at[v->stack.at[at]];
    const char *file = f->file ? dp_query_naming_frames_text(&v->frames, f->file) : "", *slash = strrchr(file, '/');
    int n = snprintf(place->name, sizeof place->name, "%.*s", DP_CLI_NAME_BYTES - 1,
                     dp_query_naming_frames_text(&v->frames, f->name));
    if (*file && f->line > 0)
        snprintf(place->name + n, sizeof place->name - (size_t)n, " (%.40s:%lld)", slash ? slash + 1 : file,
                 (long long)f->line);
    place->stack = dp_query_stacks_add(&s->stacks, v, at);
    return place->stack != DP_STRINGS_NONE;
}

void dp_cli_functions_fini(struct dp_cli_functions *f)
{
    dp_strings_fini(&f->names);
    dp_vec_fini(&f->at);
}

int dp_cli_functions_read_kind(struct dp_cli_sentences *s, struct dp_query *v, const char *kind, const char *type,
                               struct dp_cli_functions *f)
{
    int status = dp_cli_sentence_begin(v, s, type, DP_QUERY_AT_USUAL);
    v->kind = kind;
    if (!status)
        status = dp_query_read(v, s->paths, s->n_paths);
    if (!status && dp_cli_functions_count(f, v, 1, true)) {
        dp_query_print_error(s->verb, "out of memory");
        status = DP_EXIT_FAILED;
    }
    return status;
}
