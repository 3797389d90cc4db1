/* SPDX-License-Identifier: MIT */
/*
 * tool/model/diff.c - subtracts successive profiles: keeps two values per row and type, before and now.
 *
 * turns[row] says which of them are valid. turns[row] == turn: the row is in the newest profile, and `before` is its
 * value one turn earlier (0 if it was not there). turns[row] == turn - 1: the row has vanished, and `now` is its old
 * value. So a turn costs only the rows of its profile, and nothing has to be cleared. Unreferenced entries are removed
 * when they are more than half of the model (compact.h).
 */
#include "tool/model/diff.h"

#include "tool/model/compact.h"
#include "profile/kinds.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define COMPACT_SLACK_BYTES ((size_t)4 << 20)

int dp_model_diff_ignore_label(struct dp_model_diff *diff, const char *key)
{
    return dp_model_ignore_label(&diff->model, key);
}

/* Marks the types with that name as flows; returns their number. */
static size_t choose(struct dp_model_diff *diff, const char *name, size_t n_name)
{
    const struct dp_model *m = &diff->model;
    size_t n_found = 0;
    for (size_t i = 0; i < m->types.n; i++) {
        const char *type = dp_model_text(m, m->types.at[i].type);
        if (strlen(type) == n_name && !memcmp(type, name, n_name)) {
            diff->is_flow.at[i] = 1;
            n_found++;
        }
    }
    return n_found;
}

static int choose_flows(struct dp_model_diff *diff, struct dp_decode_error *error)
{
    const struct dp_model *m = &diff->model;
    dp_vec_clear(&diff->is_flow);
    if (!dp_vec_room(&diff->is_flow, m->types.n + 1))
        return -ENOMEM;
    for (size_t i = 0; i < m->types.n; i++)
        diff->is_flow.at[diff->is_flow.n++] =
            !diff->flows && dp_kind_type_is_flow(dp_model_text(m, m->types.at[i].type));
    for (const char *at = diff->flows, *end; at; at = *end ? end + 1 : NULL) {
        end = strchrnul(at, ',');
        if (choose(diff, at, (size_t)(end - at)))
            continue;
        char types[128];
        dp_model_type_names(m, types, sizeof types);
        dp_decode_fail(error, "no sample type %.*s to subtract; it has: %s", (int)(end - at), at, types);
        return -EINVAL;
    }
    return 0;
}

/* Adds; a sum that overflows stays at the largest or smallest number. */
static int64_t sum(int64_t a, int64_t b)
{
    int64_t value;
    return !__builtin_add_overflow(a, b, &value) ? value : b < 0 ? INT64_MIN : INT64_MAX;
}

static int64_t difference(int64_t a, int64_t b)
{
    int64_t value;
    return !__builtin_sub_overflow(a, b, &value) ? value : b < 0 ? INT64_MAX : INT64_MIN;
}

static int add_row(void *ctx, uint32_t row, const int64_t *values)
{
    struct dp_model_diff *diff = ctx;
    size_t n_types = diff->model.types.n;
    if (row >= diff->turns.n) {
        if (!dp_vec_room(&diff->turns, 1) || !dp_vec_room(&diff->values, 2 * n_types + 1))
            return -ENOMEM;
        diff->turns.at[diff->turns.n++] = 0;
        diff->values.n += 2 * n_types;
    }
    int64_t *before = &diff->values.at[row * 2 * n_types], *now = before + n_types;
    if (diff->turns.at[row] == diff->turn) { /* a row that was seen in this turn: its samples are summed */
        for (size_t i = 0; i < n_types; i++)
            now[i] = sum(now[i], values[i]);
        return 0;
    }
    int was_there = diff->turns.at[row] == diff->turn - 1 && diff->turn > 1;
    for (size_t i = 0; i < n_types; i++) {
        before[i] = was_there ? now[i] : 0;
        now[i] = values[i];
    }
    diff->turns.at[row] = diff->turn;
    diff->n_rows++;
    return 0;
}

/* Makes a new model of the rows in the newest profile; they get the first numbers, in the same order. */
static int compact(struct dp_model_diff *diff)
{
    struct dp_model_compact copy;
    size_t n_types = diff->model.types.n, n_kept = 0;
    int err = dp_model_compact_begin(&copy, &diff->model);
    for (uint32_t row = 0; row < diff->turns.n && !err; row++) {
        if (diff->turns.at[row] != diff->turn)
            continue;
        err = dp_model_compact_row(&copy, row);
        if (err)
            break;
        memmove(&diff->values.at[n_kept * 2 * n_types], &diff->values.at[row * 2 * n_types],
                2 * n_types * sizeof *diff->values.at);
        diff->turns.at[n_kept++] = diff->turn;
    }
    if (!err) {
        diff->turns.n = n_kept;
        diff->values.n = n_kept * 2 * n_types;
    }
    dp_model_compact_end(&copy, err);
    diff->compact_bytes = dp_model_size(&diff->model);
    return err;
}

int dp_model_diff_add(struct dp_model_diff *diff, const struct dp_decode *d, struct dp_decode_error *error)
{
    int err = 0;
    if (diff->turn && dp_model_size(&diff->model) > 2 * diff->compact_bytes + COMPACT_SLACK_BYTES)
        err = compact(diff);
    if (diff->turn)
        diff->end_ns = (int64_t)((uint64_t)diff->header.time_ns + (uint64_t)diff->header.duration_ns);
    diff->turn++;
    diff->model.is_series = true;
    diff->n_rows = 0;
    if (!err)
        err = dp_model_add(&diff->model, d, add_row, diff, error);
    if (!err)
        err = dp_model_header_fill(&diff->header, &diff->model, d);
    if (!err && diff->turn == 1) {
        diff->compact_bytes = dp_model_size(&diff->model);
        err = choose_flows(diff, error);
    }
    if (err == -ENOMEM)
        dp_decode_fail(error, "out of memory");
    return err;
}

/* Computes the row's values to write. False: the row is left out. */
static bool subtract(const struct dp_model_diff *diff, uint32_t row, int64_t *values,
                     struct dp_model_diff_result *found)
{
    size_t n_types = diff->model.types.n;
    const int64_t *before = &diff->values.at[row * 2 * n_types], *now = before + n_types;
    bool is_there = diff->turns.at[row] == diff->turn;
    int went_down = 0;
    int64_t any = 0;
    if (!is_there && diff->turns.at[row] != diff->turn - 1)
        return false;
    for (size_t i = 0; i < n_types; i++) {
        if (!diff->is_flow.at[i]) {
            values[i] = is_there ? now[i] : 0;
        } else {
            values[i] = is_there ? difference(now[i], before[i]) : difference(0, now[i]);
            went_down |= values[i] < 0;
            if (values[i] < 0 && diff->negative != DP_DIFF_KEEP)
                values[i] = 0;
        }
        any |= values[i];
    }
    found->n_went_down += (size_t)went_down;
    return any && !(went_down && diff->negative == DP_DIFF_DROP);
}

/* Sets the time window: from the end of the profile before to the end of this one. The first profile keeps its own. */
static void set_window(const struct dp_model_diff *diff, struct dp_model_header *header)
{
    if (diff->turn < 2 || !header->time_ns || !diff->end_ns)
        return;
    int64_t end_ns = (int64_t)((uint64_t)header->time_ns + (uint64_t)header->duration_ns);
    header->time_ns = diff->end_ns;
    header->duration_ns = end_ns > diff->end_ns ? end_ns - diff->end_ns : 1; /* 0 would mean a cumulative profile */
}

int dp_model_diff_write(struct dp_model_diff *diff, dp_pprof_write_fn fn, void *ctx, struct dp_model_diff_result *found)
{
    struct dp_model_write write;
    struct dp_model_header header = diff->header; /* shares its vectors */
    *found = (struct dp_model_diff_result){0};
    set_window(diff, &header);
    size_t n_types = diff->model.types.n;
    int64_t *values = dp_mem_map((n_types + 1) * sizeof *values);
    int err = dp_model_write_begin(&write, &diff->model, &header, fn, ctx);
    if (!values)
        err = -ENOMEM;
    for (uint32_t row = 0; row < diff->turns.n && !err; row++) {
        if (!subtract(diff, row, values, found))
            continue;
        err = dp_model_write_row(&write, row, values);
        found->n_rows++;
    }
    if (!err)
        err = dp_model_write_finish(&write);
    dp_model_write_fini(&write);
    dp_mem_unmap(values, (n_types + 1) * sizeof *values);
    return err;
}

void dp_model_diff_fini(struct dp_model_diff *diff)
{
    dp_model_fini(&diff->model);
    dp_model_header_fini(&diff->header);
    dp_vec_fini(&diff->is_flow);
    dp_vec_fini(&diff->values);
    dp_vec_fini(&diff->turns);
}
