/* SPDX-License-Identifier: MIT */
/*
 * tool/pack/pack_moments.c - adds a file of events as a kind with a tick for each 20 ms in which there are any: the
 * heat map and the lanes of threads of the page. Its rows are stacks with the thread as a label, as those of other
 * kinds.
 */
#include "tool/pack/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOMENT_US = 20000 };

struct event {
    int64_t end_us;
    uint32_t row, values; /* values: the first of the event's values in reading.values */
};

struct reading {
    const struct dp_decode *decode;
    struct dp_model *model;
    DP_VEC(struct event) events;
    DP_VEC(int64_t) values;
};

/* The model does not keep the time of a sample: each would be a row of its own. */
static int64_t time_of(const struct reading *r)
{
    for (size_t i = 0; i < r->model->sample.labels.n; i++)
        if (dp_decode_is_text(r->decode, r->model->sample.labels.at[i].key, "end_timestamp_ns"))
            return r->model->sample.labels.at[i].num;
    return 0;
}

static int take_event(void *ctx, uint32_t row, const int64_t *values)
{
    struct reading *r = ctx;
    size_t n = r->model->types.n;
    int64_t end_us = time_of(r) / 1000;
    if (end_us <= 0)
        return 0;
    struct event *event = dp_vec_push(&r->events);
    int64_t *to = event ? dp_vec_room(&r->values, n) : NULL;
    if (!to)
        return -ENOMEM;
    *event = (struct event){.end_us = end_us, .row = row, .values = (uint32_t)r->values.n};
    memcpy(to, values, n * sizeof *to);
    r->values.n += n;
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    return x->end_us != y->end_us ? (x->end_us > y->end_us) - (x->end_us < y->end_us)
                                  : (x->values > y->values) - (x->values < y->values);
}

/* The end of the 20 ms that a time lies in. */
static int64_t moment_of(int64_t us)
{
    return us / MOMENT_US * MOMENT_US + MOMENT_US;
}

static int put_moments(struct dp_pack *pack, size_t kind, struct reading *r)
{
    int err = 0;
    if (r->events.n)
        qsort(r->events.at, r->events.n, sizeof *r->events.at, by_time);
    for (size_t i = 0; i < r->events.n && !err;) {
        int64_t end_us = moment_of(r->events.at[i].end_us);
        dp_pack_begin_tick(pack, kind);
        for (; i < r->events.n && r->events.at[i].end_us < end_us && !err; i++)
            err = dp_pack_add_row(pack, kind, r->events.at[i].row, &r->values.at[r->events.at[i].values]);
        if (!err)
            err = dp_pack_end_tick(pack, kind, end_us, MOMENT_US);
    }
    return err;
}

int dp_pack_add_moments(struct dp_pack *pack, const struct dp_decode *d, const struct dp_pack_source *source,
                        struct dp_decode_error *error)
{
    struct reading r = {.decode = d};
    size_t kind = 0;
    if (d->types.n > DP_PACK_TYPES_MAX)
        return 0;
    int err = dp_pack_find_kind(pack, source, &kind);
    if (err)
        return err;
    r.model = &pack->kinds.at[kind].model;
    bool is_new = !r.model->types.n;
    if (is_new &&
        ((err = dp_model_ignore_label(r.model, "end_timestamp_ns")) ||
         (err = dp_model_ignore_label(r.model, "duration")) || (err = dp_model_ignore_label(r.model, "trace_id")) ||
         (err = dp_model_ignore_label(r.model, "span_id"))))
        return err;
    err = dp_model_add(r.model, d, take_event, &r, error);
    if (!err)
        err = put_moments(pack, kind, &r);
    dp_vec_fini(&r.events);
    dp_vec_fini(&r.values);
    return err;
}
