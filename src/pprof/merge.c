/* SPDX-License-Identifier: MIT */
/*
 * pprof/merge.c - values by row; sums that overflow stay at the largest number.
 *
 * In-use values of profiles whose process is unknown are kept apart, per main program, until a newer one replaces them
 * or the end adds them up: whether one is the newest is known only when all have been seen.
 */
#include "pprof/merge.h"

#include <errno.h>
#include <string.h>

struct adding {
    struct dp_merge *merge;
    enum dp_merge_state state;
    struct dp_merge_loose *loose; /* where in-use values go; NULL: nowhere */
};

int dp_merge_is_state(const struct dp_merge *merge, size_t type)
{
    return !strncmp(dp_model_text(&merge->model, merge->model.types.at[type].type), "inuse_", 6);
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
        if (adding->state == DP_MERGE_NEWEST || !dp_merge_is_state(merge, i)) {
            dp_merge_sum(&merge->values.at[row * n_types + i], values[i]);
        } else if (adding->loose) {
            struct dp_merge_loose_row *to = dp_vec_push(&adding->loose->rows);
            if (!to)
                return -ENOMEM;
            *to = (struct dp_merge_loose_row){.row = row, .value = values[i], .type = (uint32_t)i};
        }
    }
    return 0;
}

/* Where the in-use values of a profile without a process go: NULL with *result 0 when a newer one is there. */
static struct dp_merge_loose *loose_place(struct dp_merge *merge, uint32_t object, int64_t time_ns, int *result)
{
    *result = 0;
    for (size_t i = 0; i < merge->loose.n; i++) {
        struct dp_merge_loose *loose = &merge->loose.at[i];
        if (loose->object != object)
            continue;
        if (loose->time_ns > time_ns)
            return NULL;
        loose->time_ns = time_ns;
        dp_vec_clear(&loose->rows);
        return loose;
    }
    struct dp_merge_loose *loose = dp_vec_push(&merge->loose);
    if (!loose)
        *result = -ENOMEM;
    else
        *loose = (struct dp_merge_loose){.object = object, .time_ns = time_ns};
    return loose;
}

/* What the main program is, before the model knows the profile's mappings: its build-id or file as a string of the
 * model. */
static uint32_t main_object(struct dp_merge *merge, const struct dp_decode *d)
{
    size_t n_bytes = 0;
    const char *text = "";
    if (d->mappings.n)
        text = dp_decode_text(d, d->mappings.at[0].build_id ? d->mappings.at[0].build_id : d->mappings.at[0].file,
                              &n_bytes);
    return dp_strings_add(&merge->model.strings, text, n_bytes);
}

int dp_merge_add(struct dp_merge *merge, const struct dp_decode *d, enum dp_merge_state state,
                 struct dp_input_error *error)
{
    struct adding adding = {.merge = merge, .state = state};
    int result = 0;
    uint32_t main_before = merge->model.main_mapping;
    if (state == DP_MERGE_LOOSE)
        adding.loose = loose_place(merge, main_object(merge, d), d->time_ns, &result);
    if (!result)
        result = dp_model_add(&merge->model, d, add_row, &adding, error);
    if (main_before)
        merge->model.main_mapping = main_before; /* the first profile's stays the first */
    if (!result && merge->n_profiles++ == 0)
        result = dp_write_header_take(&merge->header, &merge->model, d);
    else if (!result)
        result = dp_write_header_join(&merge->header, &merge->model, d);
    if (result == -ENOMEM)
        dp_input_fail(error, "out of memory");
    return result;
}

int dp_merge_settle(struct dp_merge *merge)
{
    if (room_for_rows(merge))
        return -ENOMEM;
    for (size_t i = 0; i < merge->loose.n; i++) {
        struct dp_merge_loose *loose = &merge->loose.at[i];
        for (size_t j = 0; j < loose->rows.n; j++) {
            const struct dp_merge_loose_row *row = &loose->rows.at[j];
            dp_merge_sum(&merge->values.at[row->row * merge->model.types.n + row->type], row->value);
        }
        dp_vec_clear(&loose->rows);
    }
    return 0;
}

int dp_merge_write(struct dp_merge *merge, dp_write_fn fn, void *ctx)
{
    struct dp_write write;
    size_t n_types = merge->model.types.n;
    int result = dp_write_begin(&write, &merge->model, &merge->header, fn, ctx);
    for (uint32_t row = 0; row < merge->model.rows.n && !result; row++) {
        const int64_t *values = &merge->values.at[row * n_types];
        int64_t any = 0;
        for (size_t i = 0; i < n_types; i++)
            any |= values[i];
        if (any)
            result = dp_write_row(&write, row, values);
    }
    if (!result)
        result = dp_write_finish(&write);
    dp_write_fini(&write);
    return result;
}

void dp_merge_fini(struct dp_merge *merge)
{
    for (size_t i = 0; i < merge->loose.n; i++)
        dp_vec_fini(&merge->loose.at[i].rows);
    dp_vec_fini(&merge->loose);
    dp_vec_fini(&merge->values);
    dp_write_header_fini(&merge->header);
    dp_model_fini(&merge->model);
}
