/* SPDX-License-Identifier: MIT */
/*
 * model/merge.c - merges profiles: sums values by row; a sum that overflows stays at the largest number.
 *
 * In-use values of two profiles of each process are kept apart until all profiles have been added: only then the newest
 * profile of each process is known, and whether a process has not ended. The two are the newest, and the one with #exit
 * or else the one before the newest. Destructors may run for longer than an interval, so profiles may lie between.
 */
#include "model/merge.h"

#include "profile/kinds.h"

#include <errno.h>
#include <string.h>

struct adding {
    struct dp_merge *merge;
    struct dp_merge_states *states; /* receives in-use values; NULL: they are dropped */
};

bool dp_merge_is_state(const struct dp_merge *merge, size_t type)
{
    return dp_kind_type_is_level(dp_model_text(&merge->model, merge->model.types.at[type].type));
}

static int room_for_rows(struct dp_merge *merge)
{
    size_t n = merge->model.rows.n * merge->model.types.n;
    if (n <= merge->values.n)
        return 0;
    int64_t *new_values = dp_vec_room(&merge->values, n - merge->values.n);
    if (!new_values)
        return -ENOMEM;
    memset(new_values, 0, (n - merge->values.n) * sizeof *new_values);
    merge->values.n = n;
    return 0;
}

static int add_row(void *ctx, uint32_t row, const int64_t *values)
{
    struct adding *adding = ctx;
    struct dp_merge *merge = adding->merge;
    size_t n_types = merge->model.types.n;
    if (room_for_rows(merge))
        return -ENOMEM;
    for (size_t i = 0; i < n_types; i++) {
        if (!values[i])
            continue;
        if (!dp_merge_is_state(merge, i)) {
            dp_merge_sum(&merge->values.at[row * n_types + i], values[i]);
        } else if (adding->states) {
            struct dp_merge_state_value *to = dp_vec_push(&adding->states->values);
            if (!to)
                return -ENOMEM;
            *to = (struct dp_merge_state_value){.row = row, .type = (uint32_t)i, .value = values[i]};
        }
    }
    return 0;
}

/* The process with that number; added if it is new. NULL: no memory. */
static struct dp_merge_process *process_of(struct dp_merge *merge, bool loose, uint32_t id)
{
    size_t n = merge->processes.n;
    if (!loose && n && !merge->processes.at[n - 1].loose && merge->processes.at[n - 1].id == id)
        return &merge->processes.at[n - 1]; /* files of one process usually follow each other */
    for (size_t i = 0; i < n; i++)
        if (merge->processes.at[i].loose == loose && merge->processes.at[i].id == id)
            return &merge->processes.at[i];
    struct dp_merge_process *process = dp_vec_push(&merge->processes);
    if (process)
        *process = (struct dp_merge_process){.loose = loose, .id = id};
    return process;
}

bool dp_merge_says(const struct dp_decode *d, const char *comment)
{
    for (size_t i = 0; i < d->comments.n; i++) {
        size_t n_bytes;
        const char *text = dp_decode_text(d, d->comments.at[i], &n_bytes);
        if (n_bytes == strlen(comment) && !memcmp(text, comment, n_bytes))
            return true;
    }
    return false;
}

static struct dp_merge_states *begin(struct dp_merge_states *states, const struct dp_decode *d)
{
    dp_vec_clear(&states->values);
    states->is_there = true;
    states->after_end = dp_merge_says(d, DP_COMMENT_ENDED);
    states->is_exit = dp_merge_says(d, DP_COMMENT_EXIT);
    states->ended = states->after_end || states->is_exit;
    states->time_ns = d->time_ns;
    return states;
}

/* Of a profile that is not the newest. NULL: its values are not kept. */
static struct dp_merge_states *begin_before(struct dp_merge_states *before, const struct dp_decode *d, bool is_next)
{
    return dp_merge_says(d, DP_COMMENT_EXIT) || (is_next && !before->is_exit) ? begin(before, d) : NULL;
}

static struct dp_merge_states *by_time(struct dp_merge_process *process, const struct dp_decode *d)
{
    struct dp_merge_states *newest = &process->newest, *before = &process->before;
    if (!newest->is_there || d->time_ns >= newest->time_ns) {
        if (!before->is_exit) {
            struct dp_merge_states spare = *before;
            *before = *newest;
            *newest = spare;
        }
        return begin(newest, d);
    }
    return begin_before(before, d, !before->is_there || d->time_ns >= before->time_ns);
}

/*
 * Identifies the main program before the profile's mappings are in the model: its build-id or file, as a string of the
 * model.
 */
static uint32_t main_object(struct dp_merge *merge, const struct dp_decode *d)
{
    size_t n_bytes = 0;
    const char *text = "";
    if (d->mappings.n)
        text = dp_decode_text(d, d->mappings.at[0].build_id ? d->mappings.at[0].build_id : d->mappings.at[0].file,
                              &n_bytes);
    return dp_strings_add(&merge->model.strings, text, n_bytes);
}

/* The place for the profile's in-use values; NULL with *err 0 if newer ones are there already. */
static struct dp_merge_states *states_of(struct dp_merge *merge, const struct dp_decode *d, struct dp_merge_place place,
                                         int *err)
{
    *err = 0;
    if (place.state == DP_MERGE_OLDER && !dp_merge_says(d, DP_COMMENT_EXIT))
        return NULL;
    bool loose = place.state == DP_MERGE_LOOSE;
    struct dp_merge_process *process = process_of(merge, loose, loose ? main_object(merge, d) : place.process);
    if (!process) {
        *err = -ENOMEM;
        return NULL;
    }
    if (loose)
        return by_time(process, d);
    if (place.state == DP_MERGE_NEWEST)
        return begin(&process->newest, d);
    return begin_before(&process->before, d, place.state == DP_MERGE_BEFORE);
}

int dp_merge_add(struct dp_merge *merge, const struct dp_decode *d, struct dp_merge_place place,
                 struct dp_decode_error *error)
{
    int err;
    uint32_t main_before = merge->model.main_mapping;
    struct adding adding = {.merge = merge};
    adding.states = states_of(merge, d, place, &err);
    if (!err)
        err = dp_model_add(&merge->model, d, add_row, &adding, error);
    if (!err)
        err = dp_model_pairs_add(&merge->pairs, &merge->model, d);
    if (main_before)
        merge->model.main_mapping = main_before; /* the main mapping stays that of the first profile */
    if (!err && merge->n_profiles++ == 0)
        err = dp_model_header_fill(&merge->header, &merge->model, d);
    else if (!err)
        err = dp_model_header_join(&merge->header, &merge->model, d);
    if (err == -ENOMEM)
        dp_decode_fail(error, "out of memory");
    return err;
}

/* ---- what is in use --------------------------------------------------------------------------------------------- */

bool dp_merge_is_inherited(const struct dp_model *m, uint32_t row)
{
    for (uint32_t i = 0; i < dp_model_n_labels(m, row); i++) {
        const struct dp_model_label *label = &m->labels.at[dp_model_labels(m, row)[i]];
        if (label->str && !strcmp(dp_model_text(m, label->key), DP_MERGE_FORK) &&
            !strcmp(dp_model_text(m, label->str), DP_MERGE_INHERITED))
            return true;
    }
    return false;
}

static bool has_ended(const struct dp_merge_process *process)
{
    return process->newest.is_there && process->newest.ended;
}

/* The in-use values of the process that count; NULL: none. */
static const struct dp_merge_states *chosen(const struct dp_merge *merge, const struct dp_merge_process *process)
{
    if (!has_ended(process))
        return process->newest.is_there ? &process->newest : NULL;
    if (merge->n_ended < merge->processes.n)
        return NULL;
    bool is_after = process->newest.after_end && process->before.is_there && !process->before.after_end;
    return is_after ? &process->before : &process->newest;
}

static void add_states(struct dp_merge *merge, const struct dp_merge_states *states)
{
    bool without = false;
    for (size_t i = 0; i < states->values.n; i++) {
        const struct dp_merge_state_value *v = &states->values.at[i];
        if (merge->n_counted > 1 && !merge->with_inherited && dp_merge_is_inherited(&merge->model, v->row))
            without = true;
        else
            dp_merge_sum(&merge->values.at[v->row * merge->model.types.n + v->type], v->value);
    }
    merge->n_without += without;
}

/* Leaves out the comments that begin so. */
static void forget_comments(struct dp_merge *merge, const char *beginning)
{
    size_t n = 0;
    for (size_t i = 0; i < merge->header.comments.n; i++)
        if (strncmp(dp_model_text(&merge->model, merge->header.comments.at[i]), beginning, strlen(beginning)))
            merge->header.comments.at[n++] = merge->header.comments.at[i];
    merge->header.comments.n = n;
}

int dp_merge_choose(struct dp_merge *merge)
{
    if (room_for_rows(merge))
        return -ENOMEM;
    for (size_t i = 0; i < merge->processes.n; i++)
        merge->n_ended += has_ended(&merge->processes.at[i]);
    for (size_t i = 0; i < merge->processes.n; i++)
        merge->n_counted += chosen(merge, &merge->processes.at[i]) != NULL;
    for (size_t i = 0; i < merge->processes.n; i++) {
        const struct dp_merge_states *states = chosen(merge, &merge->processes.at[i]);
        if (states)
            add_states(merge, states);
    }
    if (merge->n_ended < merge->processes.n)
        forget_comments(merge, DP_COMMENT_ENDED); /* a sum that holds a process which goes on has not ended */
    if (merge->n_profiles > 1)
        forget_comments(merge, DP_COMMENT_ALLOCATED); /* totals of several times are no total */
    return 0;
}

int dp_merge_write(struct dp_merge *merge, dp_pprof_write_fn fn, void *ctx)
{
    struct dp_model_write write;
    size_t n_types = merge->model.types.n;
    int err = dp_model_write_begin(&write, &merge->model, &merge->header, fn, ctx);
    for (uint32_t row = 0; row < merge->model.rows.n && !err; row++) {
        const int64_t *values = &merge->values.at[row * n_types];
        if (!dp_encode_is_zero(values, n_types))
            err = dp_model_write_row(&write, row, values);
    }
    if (!err)
        err = dp_model_pairs_write(&merge->pairs, &write);
    if (!err)
        err = dp_model_write_finish(&write);
    dp_model_write_fini(&write);
    return err;
}

void dp_merge_fini(struct dp_merge *merge)
{
    for (size_t i = 0; i < merge->processes.n; i++) {
        dp_vec_fini(&merge->processes.at[i].newest.values);
        dp_vec_fini(&merge->processes.at[i].before.values);
    }
    dp_vec_fini(&merge->processes);
    dp_vec_fini(&merge->values);
    dp_model_pairs_fini(&merge->pairs);
    dp_model_header_fini(&merge->header);
    dp_model_fini(&merge->model);
}
