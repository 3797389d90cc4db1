/* SPDX-License-Identifier: MIT */
/*
 * tool/model/moments_write.c - writes the moments of a merged profile (moments.h).
 *
 * A moment is written as its differences to the moment before of the same process: most stacks do not change within a
 * tick, so a day of ticks is a few times as large as one.
 */
#include "tool/model/moments.h"

#include "pprof/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Order: by process, and in it by time. */
static int by_process(const void *a, const void *b)
{
    const struct dp_model_moment *x = a, *y = b;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

struct writer {
    struct dp_model_write *write;
    DP_VEC(uint8_t) bytes;
    DP_VEC(uint32_t) row_of;   /* by row of the model: row of the field + 1; 0: none of the moments has it */
    DP_VEC(uint32_t) rows;     /* of the model, by row of the field */
    DP_VEC(int64_t) now, last; /* values by row of the field */
    DP_VEC(uint32_t) present;  /* rows with a value in the moment before */
    DP_VEC(uint32_t) touched;  /* rows with a value in this moment or the one before */
    DP_VEC(uint8_t) is_touched;
    uint32_t column[DP_MOMENTS_TYPES_MAX]; /* of a type of the model among n_types */
    size_t n_types;
    bool no_memory;
};

static void put_varint(struct writer *w, uint64_t value)
{
    if (!w->no_memory && !dp_vec_room(&w->bytes, DP_WIRE_VARINT_MAX))
        w->no_memory = true;
    if (!w->no_memory)
        w->bytes.n = (size_t)(dp_wire_put(w->bytes.at + w->bytes.n, value) - w->bytes.at);
}

static void put_signed(struct writer *w, int64_t value)
{
    put_varint(w, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static void put_row(struct writer *w, uint32_t row)
{
    const struct dp_model *m = w->write->model;
    put_varint(w, dp_model_depth(m, row));
    for (uint32_t i = 0; i < dp_model_depth(m, row); i++)
        put_varint(w, dp_model_write_location(w->write, dp_model_stack(m, row)[i]));
    put_varint(w, dp_model_n_labels(m, row));
    for (uint32_t i = 0; i < dp_model_n_labels(m, row); i++) {
        const struct dp_model_label *label = &m->labels.at[dp_model_labels(m, row)[i]];
        put_varint(w, (uint64_t)dp_model_write_string(w->write, label->key));
        put_varint(w, (uint64_t)dp_model_write_string(w->write, label->str));
        put_signed(w, label->num);
        put_varint(w, (uint64_t)dp_model_write_string(w->write, label->num_unit));
    }
}

/* Numbers the rows that the moments have. */
static int number_rows(struct writer *w, const struct dp_model_moment_values *moments, size_t n_moments)
{
    size_t n_rows = w->write->model->rows.n;
    if (!dp_vec_room(&w->row_of, n_rows + 1) || !dp_vec_room(&w->rows, n_rows + 1))
        return -ENOMEM;
    memset(w->row_of.at, 0, (n_rows + 1) * sizeof *w->row_of.at);
    for (size_t i = 0; i < n_moments; i++)
        for (size_t j = 0; j < moments[i].n_values; j++) {
            uint32_t row = moments[i].values[j].row;
            if (w->row_of.at[row])
                continue;
            w->rows.at[w->rows.n++] = row;
            w->row_of.at[row] = (uint32_t)w->rows.n;
        }
    size_t n_values = w->rows.n * w->n_types;
    if (!dp_vec_room(&w->now, n_values + 1) || !dp_vec_room(&w->last, n_values + 1) ||
        !dp_vec_room(&w->present, w->rows.n + 1) || !dp_vec_room(&w->touched, w->rows.n + 1) ||
        !dp_vec_room(&w->is_touched, w->rows.n + 1))
        return -ENOMEM;
    memset(w->is_touched.at, 0, w->rows.n + 1);
    memset(w->now.at, 0, (n_values + 1) * sizeof *w->now.at);
    memset(w->last.at, 0, (n_values + 1) * sizeof *w->last.at);
    return 0;
}

static void touch(struct writer *w, uint32_t row)
{
    if (w->is_touched.at[row])
        return;
    w->is_touched.at[row] = 1;
    w->touched.at[w->touched.n++] = row;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool is_equal(const struct writer *w, uint32_t row)
{
    return !memcmp(&w->now.at[row * w->n_types], &w->last.at[row * w->n_types], w->n_types * sizeof *w->now.at);
}

/* Writes what differs from the moment before, and makes this one the moment before. */
static void put_changes(struct writer *w)
{
    size_t n_changes = 0;
    int64_t before = 0;
    qsort(w->touched.at, w->touched.n, sizeof *w->touched.at, by_number);
    for (size_t i = 0; i < w->touched.n; i++)
        n_changes += !is_equal(w, w->touched.at[i]);
    put_varint(w, n_changes);
    dp_vec_clear(&w->present);
    for (size_t i = 0; i < w->touched.n; i++) {
        uint32_t row = w->touched.at[i];
        int64_t *now = &w->now.at[row * w->n_types], *last = &w->last.at[row * w->n_types];
        bool is_changed = !is_equal(w, row);
        if (is_changed) {
            put_signed(w, row - before);
            before = row;
        }
        for (size_t t = 0; t < w->n_types && is_changed; t++)
            put_signed(w, (int64_t)((uint64_t)now[t] - (uint64_t)last[t]));
        if (!dp_encode_is_zero(now, w->n_types))
            w->present.at[w->present.n++] = row;
        memcpy(last, now, w->n_types * sizeof *now);
        memset(now, 0, w->n_types * sizeof *now);
        w->is_touched.at[row] = 0;
    }
    dp_vec_clear(&w->touched);
}

static void put_moment(struct writer *w, const struct dp_model_moment_values *m)
{
    const struct dp_model_moment *moment = &m->moment;
    put_varint(w, moment->process);
    put_varint(w, moment->seq);
    put_signed(w, moment->time_ns);
    put_signed(w, moment->duration_ns);
    put_signed(w, moment->bytes);
    put_signed(w, moment->own_bytes);
    put_varint(w, (moment->is_exit ? DP_MOMENTS_EXIT : 0) | (moment->ended ? DP_MOMENTS_ENDED : 0) |
                      (moment->is_gone ? DP_MOMENTS_GONE : 0));
    for (size_t i = 0; i < w->present.n; i++)
        touch(w, w->present.at[i]);
    for (size_t i = 0; i < m->n_values; i++) {
        uint32_t row = w->row_of.at[m->values[i].row] - 1;
        int64_t *to = &w->now.at[row * w->n_types + w->column[m->values[i].type]];
        touch(w, row);
        if (__builtin_add_overflow(*to, m->values[i].value, to))
            *to = m->values[i].value < 0 ? INT64_MIN : INT64_MAX;
    }
    put_changes(w);
}

/* Begins another process: nothing of it is known. */
static void forget_last(struct writer *w)
{
    for (size_t i = 0; i < w->present.n; i++)
        memset(&w->last.at[w->present.at[i] * w->n_types], 0, w->n_types * sizeof *w->last.at);
    dp_vec_clear(&w->present);
}

static void put_field(struct writer *w, const struct dp_model_moment_values *moments, size_t n_moments)
{
    put_varint(w, w->rows.n);
    for (size_t i = 0; i < w->rows.n; i++)
        put_row(w, w->rows.at[i]);
    put_varint(w, n_moments);
    for (size_t i = 0; i < n_moments; i++) {
        if (i && moments[i].moment.process != moments[i - 1].moment.process)
            forget_last(w);
        put_moment(w, &moments[i]);
    }
}

/* In one piece: other fields must not come in between. */
static int write_bytes(struct writer *w)
{
    uint8_t numbers[3 * DP_WIRE_VARINT_MAX], *end = numbers;
    end = dp_wire_put(end, DP_MOMENTS_VERSION);
    end = dp_wire_put(end, dp_encode_locations(w->write->encode));
    end = dp_wire_put(end, w->n_types);
    size_t n_numbers = (size_t)(end - numbers), n_bytes = n_numbers + w->bytes.n;
    DP_VEC(uint8_t) field = {0};
    uint8_t *at = dp_vec_room(&field, n_bytes + 2 * DP_WIRE_VARINT_MAX);
    if (!at)
        return -ENOMEM;
    at = dp_wire_put(dp_wire_put(at, dp_wire_tag(DP_MOMENTS_FIELD, DP_WIRE_BYTES)), n_bytes);
    memcpy(at, numbers, n_numbers);
    memcpy(at + n_numbers, w->bytes.at, w->bytes.n);
    dp_encode_raw(w->write->encode, field.at, (size_t)(at - field.at) + n_bytes);
    dp_vec_fini(&field);
    return 0;
}

int dp_model_moments_write(struct dp_model_write *write, struct dp_model_moment_values *moments, size_t n_moments)
{
    const struct dp_model *m = write->model;
    struct writer w = {.write = write};
    for (size_t i = 0; i < m->types.n && i < DP_MOMENTS_TYPES_MAX; i++)
        if (dp_model_moments_is_state(m, i))
            w.column[i] = (uint32_t)w.n_types++;
    if (!w.n_types || !n_moments || m->types.n > DP_MOMENTS_TYPES_MAX)
        return 0;
    qsort(moments, n_moments, sizeof *moments, by_process);
    w.no_memory = number_rows(&w, moments, n_moments) != 0;
    if (!w.no_memory)
        put_field(&w, moments, n_moments);
    if (!w.no_memory)
        w.no_memory = write_bytes(&w) != 0;
    dp_vec_fini(&w.bytes);
    dp_vec_fini(&w.row_of);
    dp_vec_fini(&w.rows);
    dp_vec_fini(&w.now);
    dp_vec_fini(&w.last);
    dp_vec_fini(&w.present);
    dp_vec_fini(&w.touched);
    dp_vec_fini(&w.is_touched);
    return w.no_memory ? -ENOMEM : 0;
}
