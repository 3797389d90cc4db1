/* SPDX-License-Identifier: MIT */
/*
 * tool/pack/pack.c - encodes profiles as ticks, each with the differences to the tick before.
 *
 * Strings, frames, stacks (nodes of a tree), label sets and processes are numbered by dp_strings, whose strings may be
 * any bytes: the bytes of a node are its caller and its frame. Number 0, the empty string, means the root, the frame of
 * the root, and no labels.
 *
 * A tick's rows are encoded when its profile is added. Ticks of several processes are put in the order of time at the
 * end: a row says only by how much its process's value changed, so the order of ticks of other processes does not
 * matter to it. After the last tick of a process that ended, a closing tick takes back what it had in use, if another
 * process goes on.
 */
#include "tool/pack/pack.h"

#include "tool/model/merge.h"
#include "profile/kinds.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOSING_US = 1 };

/* ---- stacks ---- */

struct node {
    uint32_t parent, frame;
};

/* Replaces a caller's node by the node of a function that it called. */
static int push_frame(struct dp_pack *pack, const struct dp_query_naming_frames *frames,
                      const struct dp_query_naming_frame *f, uint32_t *node)
{
    struct dp_pack_frame frame = {.line = f->line > 0 && f->line <= UINT32_MAX ? (uint32_t)f->line : 0,
                                  .flags = (f->is_passing ? DP_PACK_PASSES : 0) |
                                           (f->is_foreign ? DP_PACK_FOREIGN : 0) |
                                           (f->is_library ? DP_PACK_LIBRARY : 0)};
    struct node next = {.parent = *node};
    int err;
    if ((err = dp_pack_intern_text(pack, dp_query_naming_frames_text(frames, f->name), &frame.name)) ||
        (err = dp_pack_intern_text(pack, dp_query_naming_frames_text(frames, f->file), &frame.file)) ||
        (err = dp_pack_intern_text(pack, dp_query_naming_frames_text(frames, f->library), &frame.library)) ||
        (err = dp_pack_intern(&pack->frames, &frame, sizeof frame, &next.frame)))
        return err;
    return dp_pack_intern(&pack->nodes, &next, sizeof next, node);
}

/*
 * The frames of a location, outermost first: inlined ones stand innermost first in it. The stack of a holder stands the
 * other way round behind the waiter's, and the profile's lines of it as well. *of_holder: the location is of such a
 * stack; set by the frame between both.
 */
static int push_location(struct dp_pack *pack, struct dp_pack_kind *kind, uint32_t location, uint32_t *node,
                         bool *of_holder)
{
    uint32_t first;
    kind->frames.model = &kind->model; /* the kind may have moved */
    int n = dp_query_naming_frames_of(&kind->frames, location, &first), err = n < 0 ? n : 0;
    bool is_turned = n > 0 && *of_holder && dp_query_naming_turns_in_holder(&kind->frames, first);
    for (int i = 0; i < n && !err; i++) {
        uint32_t frame = first + (uint32_t)(is_turned ? i : n - 1 - i);
        err = push_frame(pack, &kind->frames, &kind->frames.at.at[frame], node);
    }
    *of_holder |= n == 1 && dp_query_naming_is_held_by(&kind->frames, first);
    return err;
}

static int push_label(struct dp_pack *pack, const struct dp_model *m, const struct dp_model_label *label,
                      uint32_t pair[2])
{
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)label->num);
    int err = dp_pack_intern_text(pack, dp_model_text(m, label->key), &pair[0]);
    return err ? err : dp_pack_intern_text(pack, label->str ? dp_model_text(m, label->str) : number, &pair[1]);
}

/* The node of a stack of the kind's model. 0 or -ENOMEM. */
static int find_node(struct dp_pack *pack, struct dp_pack_kind *kind, const uint32_t *stack, uint32_t depth,
                     uint32_t *node)
{
    int err = 0;
    bool of_holder = false;
    *node = 0;
    for (uint32_t i = depth; i-- > 0 && !err;)
        err = push_location(pack, kind, stack[i], node, &of_holder);
    return err;
}

/* The node and the label set of a row that is new in the kind's model. */
static int describe(struct dp_pack *pack, struct dp_pack_kind *kind, uint32_t row)
{
    enum { MAX_LABELS = 32 };
    const struct dp_model *m = &kind->model;
    uint32_t pairs[MAX_LABELS][2], n_labels = dp_model_n_labels(m, row), node, labels = 0;
    int err = find_node(pack, kind, dp_model_stack(m, row), dp_model_depth(m, row), &node);
    if (n_labels > MAX_LABELS)
        n_labels = MAX_LABELS;
    for (uint32_t i = 0; i < n_labels && !err; i++)
        err = push_label(pack, m, &m->labels.at[dp_model_labels(m, row)[i]], pairs[i]);
    if (!err)
        err = dp_pack_intern(&pack->label_sets, pairs, n_labels * sizeof *pairs, &labels);
    if (err)
        return err;
    kind->node.at[row] = node;
    kind->labels.at[row] = labels;
    return 0;
}

/* ---- rows of a tick ---- */

struct adding {
    struct dp_pack *pack;
    struct dp_pack_kind *kind;
};

static bool is_level(const struct dp_pack_kind *kind, size_t type)
{
    return dp_kind_type_is_level(dp_model_text(&kind->model, kind->model.types.at[type].type));
}

/* Zeroed elements up to n; the macro needs the vector itself. */
#define GROW(v, count)                                                       \
    __extension__({                                                          \
        size_t more_ = (count) > (v)->n ? (count) - (v)->n : 0;              \
        void *room_ = more_ ? (void *)dp_vec_room((v), more_) : (void *)(v); \
        if (room_ && more_)                                                  \
            memset(room_, 0, more_ * sizeof *(v)->at);                       \
        if (room_)                                                           \
            (v)->n += more_;                                                 \
        room_ != NULL;                                                       \
    })

/* Rows before it in the model may be added later, as those of events, which are in the order of time. */
static int room_for_row(struct adding *adding, uint32_t row)
{
    int err = 0;
    struct dp_pack_kind *kind = adding->kind;
    size_t n_types = kind->model.types.n, known = kind->node.n, n_rows = (size_t)row + 1;
    if (!GROW(&kind->now, n_rows * n_types) || !GROW(&kind->before, n_rows * n_types) || !GROW(&kind->node, n_rows) ||
        !GROW(&kind->labels, n_rows) || !GROW(&kind->stamp, n_rows))
        return -ENOMEM;
    for (size_t i = known; i < n_rows && !err; i++)
        err = describe(adding->pack, kind, (uint32_t)i);
    return err;
}

static int add_row(void *ctx, uint32_t row, const int64_t *values)
{
    struct adding *adding = ctx;
    struct dp_pack_kind *kind = adding->kind;
    size_t n_types = kind->model.types.n;
    int err = room_for_row(adding, row);
    if (err)
        return err;
    int64_t *now = &kind->now.at[row * n_types];
    if (kind->stamp.at[row] != kind->tick) {
        uint32_t *touched = dp_vec_push(&kind->touched);
        if (!touched)
            return -ENOMEM;
        *touched = row;
        kind->stamp.at[row] = kind->tick;
        memset(now, 0, n_types * sizeof *now);
    }
    for (size_t i = 0; i < n_types; i++)
        dp_model_merge_sum(&now[i], values[i]);
    return 0;
}

/* Sets rows to 0 that had memory in use and are not in this profile. */
static int touch_missing(struct dp_pack_kind *kind)
{
    size_t n_types = kind->model.types.n;
    for (size_t i = 0; i < kind->in_use.n; i++) {
        uint32_t row = kind->in_use.at[i];
        if (kind->stamp.at[row] == kind->tick)
            continue;
        uint32_t *touched = dp_vec_push(&kind->touched);
        if (!touched)
            return -ENOMEM;
        *touched = row;
        kind->stamp.at[row] = kind->tick;
        memset(&kind->now.at[row * n_types], 0, n_types * sizeof *kind->now.at);
    }
    return 0;
}

static int by_node(const void *a, const void *b, void *ctx)
{
    const uint32_t *node = ctx;
    uint32_t x = node[*(const uint32_t *)a], y = node[*(const uint32_t *)b];
    return (x > y) - (x < y);
}

/* Encodes what changed, and makes `now` what was before. */
static int put_rows(struct dp_pack *pack, struct dp_pack_kind *kind)
{
    size_t n_types = kind->model.types.n, n_rows = 0;
    uint32_t node = 0;
    qsort_r(kind->touched.at, kind->touched.n, sizeof *kind->touched.at, by_node, kind->node.at);
    dp_vec_clear(&kind->in_use);
    for (int pass = 0; pass < 2; pass++) { /* the number of rows stands before them */
        int err = pass ? dp_pack_put(pack, n_rows) : 0;
        for (size_t i = 0; i < kind->touched.n && !err; i++) {
            uint32_t row = kind->touched.at[i];
            int64_t *now = &kind->now.at[row * n_types], *before = &kind->before.at[row * n_types];
            int64_t changed = 0, level = 0;
            for (size_t t = 0; t < n_types; t++) {
                changed |= is_level(kind, t) ? now[t] - before[t] : now[t];
                level |= is_level(kind, t) ? now[t] : 0;
            }
            n_rows += !pass && changed;
            if (!pass)
                continue;
            if (level) {
                uint32_t *in_use = dp_vec_push(&kind->in_use);
                if (!in_use)
                    return -ENOMEM;
                *in_use = row;
            }
            if (changed) {
                err = dp_pack_put_signed(pack, (int64_t)kind->node.at[row] - node);
                node = kind->node.at[row];
                if (!err)
                    err = dp_pack_put(pack, kind->labels.at[row]);
                for (size_t t = 0; t < n_types && !err; t++)
                    err = dp_pack_put_signed(pack, is_level(kind, t) ? now[t] - before[t] : now[t]);
            }
            memcpy(before, now, n_types * sizeof *now);
        }
        if (err)
            return err;
    }
    return 0;
}

/* ---- ticks ---- */

/* Encodes one tick of the kind, with its times in `head`. d NULL: it is not one profile. */
static int put_tick(struct dp_pack *pack, struct dp_pack_tick head, int64_t duration_us, const struct dp_decode *d)
{
    struct dp_pack_kind *kind = &pack->kinds.at[head.kind];
    struct dp_pack_tick *tick = dp_vec_push(&pack->ticks);
    if (!tick)
        return -ENOMEM;
    head.offset = pack->bytes.n;
    head.process = kind->process;
    *tick = head;
    int err;
    if ((err = dp_pack_put(pack, duration_us > 0 ? (uint64_t)duration_us : 0)) ||
        (err = dp_pack_put(pack, d && d->period > 0 ? (uint64_t)d->period : 0)) ||
        (err = dp_pack_put_comments(pack, d)) || (err = put_rows(pack, kind)))
        return err;
    tick = &pack->ticks.at[pack->ticks.n - 1];
    tick->n_bytes = pack->bytes.n - tick->offset;
    return 0;
}

/* Forgets the memory in use of the kind's process. If the process has ended, writes a tick that says so. */
static int close_process(struct dp_pack *pack, size_t kind_number)
{
    struct dp_pack_kind *kind = &pack->kinds.at[kind_number];
    size_t n_types = kind->model.types.n;
    int err = 0;
    dp_vec_clear(&kind->touched);
    kind->tick++;
    if (kind->ended && !(err = touch_missing(kind)))
        err = put_tick(
            pack, (struct dp_pack_tick){.kind = kind_number, .end_us = kind->last_end_us + CLOSING_US, .closes = true},
            0, NULL);
    for (size_t i = 0; i < kind->in_use.n; i++)
        memset(&kind->before.at[kind->in_use.at[i] * n_types], 0, n_types * sizeof *kind->before.at);
    dp_vec_clear(&kind->in_use);
    return err;
}

static int find_kind(struct dp_pack *pack, const char *name, size_t *number)
{
    uint32_t text;
    int err = dp_pack_intern_text(pack, name, &text);
    for (size_t i = 0; i < pack->kinds.n && !err; i++)
        if (pack->kinds.at[i].name == text) {
            *number = i;
            return 0;
        }
    struct dp_pack_kind *kind = err ? NULL : dp_vec_push(&pack->kinds);
    if (!kind)
        return -ENOMEM;
    *kind = (struct dp_pack_kind){.name = text};
    *number = pack->kinds.n - 1;
    return dp_model_ignore_label(&kind->model, "bytes");
}

static int find_process(struct dp_pack *pack, const struct dp_pack_source *source, uint32_t *number)
{
    uint32_t texts[3];
    int err;
    if ((err = dp_pack_intern_text(pack, source->program, &texts[0])) ||
        (err = dp_pack_intern_text(pack, source->pid, &texts[1])) ||
        (err = dp_pack_intern_text(pack, source->host, &texts[2])))
        return err;
    return dp_pack_intern(&pack->processes, texts, sizeof texts, number);
}

int dp_pack_find_kind(struct dp_pack *pack, const struct dp_pack_source *source, size_t *number)
{
    uint32_t process;
    int err = find_kind(pack, source->kind, number) ?: find_process(pack, source, &process);
    if (err)
        return err;
    struct dp_pack_kind *kind = &pack->kinds.at[*number];
    if (kind->has_process && kind->process != process && (err = close_process(pack, *number)))
        return err;
    kind->has_process = true;
    kind->process = process;
    return 0;
}

void dp_pack_begin_tick(struct dp_pack *pack, size_t number)
{
    pack->kinds.at[number].tick++;
    dp_vec_clear(&pack->kinds.at[number].touched);
}

int dp_pack_add_row(struct dp_pack *pack, size_t number, uint32_t row, const int64_t *values)
{
    struct adding adding = {pack, &pack->kinds.at[number]};
    return add_row(&adding, row, values);
}

int dp_pack_end_tick(struct dp_pack *pack, size_t number, int64_t end_us, int64_t duration_us)
{
    pack->kinds.at[number].last_end_us = end_us;
    return put_tick(pack, (struct dp_pack_tick){.kind = number, .end_us = end_us}, duration_us, NULL);
}

int dp_pack_add(struct dp_pack *pack, const struct dp_decode *d, const struct dp_pack_source *source,
                struct dp_decode_error *error)
{
    size_t number = 0;
    int err = dp_pack_find_kind(pack, source, &number);
    if (err)
        return err;
    dp_pack_begin_tick(pack, number);
    struct dp_pack_kind *kind = &pack->kinds.at[number];
    struct adding adding = {pack, kind};
    if ((err = dp_model_add(&kind->model, d, add_row, &adding, error)) || (err = touch_missing(kind)))
        return err;
    kind->last_end_us = (d->time_ns + (d->duration_ns > 0 ? d->duration_ns : 0)) / 1000;
    kind->ended = dp_model_merge_says(d, DP_COMMENT_ENDED) || dp_model_merge_says(d, DP_COMMENT_EXIT);
    return put_tick(pack, (struct dp_pack_tick){.kind = number, .end_us = kind->last_end_us}, d->duration_ns / 1000, d);
}

int dp_pack_close(struct dp_pack *pack)
{
    int err = 0;
    for (size_t i = 0; i < pack->kinds.n && !err; i++)
        if (pack->kinds.at[i].has_process)
            err = close_process(pack, i);
    return err;
}
