/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/join.c - joins profiles through tool/model/merge.h: flows are summed; in-use values are those of the last
 * look, and of living processes only.
 */
#include "tool/serve/join.h"

#include "tool/model/merge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PID "pid"

struct dp_serve_delta *dp_serve_delta_keep(struct dp_serve_delta *delta)
{
    delta->n_users++;
    return delta;
}

void dp_serve_delta_drop(struct dp_serve_delta *delta)
{
    if (delta && --delta->n_users == 0)
        free(delta);
}

static int add(struct dp_model_merge *merge, const struct dp_serve_join *join, const struct dp_serve_delta *delta)
{
    struct dp_decode decode = {0};
    struct dp_decode_error error = {0};
    char pid[16] = "ended";
    if (delta->pid)
        snprintf(pid, sizeof pid, "%d", (int)delta->pid);
    merge->model.more_label = 0;
    int err = dp_decode_scan(&decode, delta->bytes, delta->n_bytes, &error);
    if (!err && !join->without_pids && !delta->has_pids)
        err = dp_model_set_label(&merge->model, PID, pid);
    if (!err && (join->is_flow_only || !delta->turn || delta->turn != join->turn))
        err = dp_model_merge_add(merge, &decode, NULL, 0, &error);
    else if (!err)
        err = dp_model_merge_add_whole(merge, &decode, &error);
    dp_decode_fini(&decode);
    return err;
}

static int skip_row(void *ctx, uint32_t row, const int64_t *values)
{
    (void)ctx;
    (void)row;
    (void)values;
    return 0;
}

/* Types and header of a profile, without its values. */
static int add_shape(struct dp_model_merge *merge, const struct dp_serve_delta *delta)
{
    struct dp_decode decode = {0};
    struct dp_decode_error error = {0};
    int err = dp_decode_scan(&decode, delta->bytes, delta->n_bytes, &error);
    if (!err)
        err = dp_model_add(&merge->model, &decode, skip_row, NULL, &error);
    if (!err)
        err = dp_model_header_fill(&merge->header, &merge->model, &decode);
    dp_decode_fini(&decode);
    return err;
}

/* The values of what is subtracted are there first. */
static int add_less(struct dp_model_merge *merge, const struct dp_serve_join *join)
{
    int err = add(merge, join, join->less);
    for (size_t i = 0; !err && i < merge->values.n; i++)
        merge->values.at[i] = -merge->values.at[i];
    return err;
}

/* A stack that has other names than before is another row: the one of before is left out. */
static void drop_negative(struct dp_model_merge *merge)
{
    for (size_t i = 0; i < merge->values.n; i++)
        if (merge->values.at[i] < 0)
            merge->values.at[i] = 0;
}

int dp_serve_join_write(const struct dp_serve_join *join, dp_pprof_write_fn fn, void *ctx)
{
    struct dp_model_merge *merge = calloc(1, sizeof *merge);
    int err = merge ? 0 : -ENOMEM;
    if (!err)
        merge->goes_on = true;
    if (!err && join->less)
        err = add_less(merge, join);
    for (size_t i = 0; !err && i < join->n; i++)
        err = add(merge, join, join->deltas[i]);
    if (!err && !join->n)
        err = join->shape ? add_shape(merge, join->shape) : -ENODATA;
    if (!err)
        err = dp_model_merge_choose(merge);
    if (!err && join->less)
        drop_negative(merge);
    if (!err && join->from_ns) {
        merge->header.time_ns = join->from_ns;
        merge->header.duration_ns = join->to_ns - join->from_ns;
    }
    if (!err && join->default_type) {
        uint32_t type = dp_strings_add(&merge->model.strings, join->default_type, strlen(join->default_type));
        err = type == DP_STRINGS_NONE ? -ENOMEM : 0;
        merge->header.default_type = type;
    }
    if (!err)
        err = dp_model_merge_write(merge, fn, ctx);
    if (merge)
        dp_model_merge_fini(merge);
    free(merge);
    return err;
}

struct dp_serve_delta *dp_serve_join_make(const struct dp_serve_join *join, unsigned kind)
{
    struct dp_recover_bytes bytes = {.at = {0}};
    struct dp_serve_delta *made = NULL;
    if (!dp_serve_join_write(join, dp_recover_append, &bytes))
        made = malloc(sizeof *made + bytes.at.n);
    if (made) {
        *made =
            (struct dp_serve_delta){.n_users = 1, .kind = kind, .has_pids = !join->without_pids, .n_bytes = bytes.at.n};
        memcpy(made->bytes, bytes.at.at, bytes.at.n);
    }
    dp_vec_fini(&bytes.at);
    return made;
}

size_t dp_serve_join_sums(const struct dp_serve_delta *delta, int64_t sums[DP_KIND_TYPES_MAX])
{
    struct dp_decode decode = {0};
    struct dp_decode_error error;
    struct dp_decode_sample sample = {.locations = {0}};
    size_t n = 0;
    memset(sums, 0, DP_KIND_TYPES_MAX * sizeof *sums);
    if (!dp_decode_scan(&decode, delta->bytes, delta->n_bytes, &error))
        n = decode.types.n < DP_KIND_TYPES_MAX ? decode.types.n : DP_KIND_TYPES_MAX;
    for (size_t i = 0; n && i < decode.samples.n; i++) {
        if (dp_decode_sample(&decode, i, &sample, &error))
            break;
        for (size_t k = 0; k < n && k < sample.values.n; k++)
            dp_model_merge_sum(&sums[k], sample.values.at[k]);
    }
    dp_decode_sample_fini(&sample);
    dp_decode_fini(&decode);
    return n;
}
