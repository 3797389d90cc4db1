/* SPDX-License-Identifier: MIT */
/*
 * tool/model/moments.c - reads the moments of a merged profile (moments.h). It keeps one array of values, of the
 * process that it is at.
 */
#include "tool/model/moments.h"

#include "tool/model/intern.h"
#include "pprof/wire.h"
#include "profile/kinds.h"

#include <errno.h>
#include <string.h>

bool dp_model_moments_is_state(const struct dp_model *m, size_t type)
{
    return dp_kind_type_is_level(dp_model_text(m, m->types.at[type].type));
}

size_t dp_model_moments_count_states(const struct dp_decode *d)
{
    size_t n_states = 0, n_bytes;
    for (size_t i = 0; i < d->types.n; i++) {
        char name[32];
        const char *text = dp_decode_text(d, d->types.at[i].type, &n_bytes);
        n_bytes = n_bytes < sizeof name ? n_bytes : 0;
        memcpy(name, text, n_bytes);
        name[n_bytes] = '\0';
        n_states += dp_kind_type_is_level(name);
    }
    return n_states;
}

/* at NULL: the bytes ended too early, or a number is out of range. */
struct reader {
    const uint8_t *at, *end;
};

static uint64_t get(struct reader *r)
{
    uint64_t value = 0;
    if (r->at)
        r->at = dp_wire_get(r->at, r->end, &value);
    return r->at ? value : 0;
}

static int64_t get_signed(struct reader *r)
{
    uint64_t value = get(r);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* A number that is below limit. */
static size_t get_below(struct reader *r, size_t limit)
{
    uint64_t value = get(r);
    if (value < limit)
        return (size_t)value;
    r->at = NULL;
    return 0;
}

/* How many things follow that take a byte each at least. */
static size_t get_count(struct reader *r)
{
    return get_below(r, r->at ? (size_t)(r->end - r->at) + 1 : 1);
}

/* Begins to read a field: r is behind its tag and length. */
static bool open_field(const struct dp_decode *d, struct dp_decode_span field, struct reader *r)
{
    uint64_t tag, n_bytes;
    r->at = d->bytes + field.offset;
    r->end = r->at + field.n_bytes;
    r->at = dp_wire_get(r->at, r->end, &tag);
    if (!r->at || tag != dp_wire_tag(DP_MOMENTS_FIELD, DP_WIRE_BYTES))
        return false;
    r->at = dp_wire_get(r->at, r->end, &n_bytes);
    return r->at && n_bytes == (size_t)(r->end - r->at);
}

bool dp_model_moments_is_field(const struct dp_decode *d, struct dp_decode_span field)
{
    struct reader r;
    return open_field(d, field, &r);
}

/* The field of the profile, behind its first numbers, which must be those of this profile. */
static bool find_field(const struct dp_decode *d, struct reader *r, size_t *n_types)
{
    for (size_t i = 0; i < d->unknown.n; i++) {
        if (!open_field(d, d->unknown.at[i], r))
            continue;
        bool is_known = get(r) == DP_MOMENTS_VERSION && get(r) == d->locations.n && d->location_ids.in_order;
        *n_types = get_below(r, DP_MOMENTS_TYPES_MAX);
        return r->at && is_known && *n_types && *n_types == dp_model_moments_count_states(d);
    }
    return false;
}

static void skip(struct reader *r, size_t n_numbers)
{
    for (size_t i = 0; i < n_numbers && r->at; i++)
        get(r);
}

static struct dp_model_moment get_moment(struct reader *r)
{
    struct dp_model_moment m = {.process = get(r)};
    m.seq = get(r);
    m.time_ns = get_signed(r);
    m.duration_ns = get_signed(r);
    m.bytes = get_signed(r);
    m.own_bytes = get_signed(r);
    unsigned marks = (unsigned)get_below(r, 8);
    m.is_exit = marks & DP_MOMENTS_EXIT;
    m.ended = marks & DP_MOMENTS_ENDED;
    m.is_gone = marks & DP_MOMENTS_GONE;
    return m;
}

int dp_model_moments_read(const struct dp_decode *d, struct dp_model_moments *moments)
{
    struct reader r;
    size_t n_types, n_before = moments->at.n;
    if (!find_field(d, &r, &n_types))
        return 0;
    for (size_t n = get_count(&r); n > 0 && r.at; n--) {
        skip(&r, get_count(&r));
        skip(&r, 4 * get_count(&r));
    }
    for (size_t n = get_count(&r); n > 0 && r.at; n--) {
        struct dp_model_moment *to = dp_vec_push(&moments->at);
        if (!to)
            return -ENOMEM;
        *to = get_moment(&r);
        skip(&r, (1 + n_types) * get_count(&r));
    }
    if (!r.at)
        moments->at.n = n_before;
    return 0;
}

/* Reads one row, and adds it to the model, whose maps are those of this profile. */
static int read_row(struct reader *r, const struct dp_decode *d, struct dp_model *m, uint32_t *row)
{
    size_t depth = get_count(r);
    dp_vec_clear(&m->key);
    if (!dp_vec_room(&m->key, 2 + depth))
        return -ENOMEM;
    m->key.at[m->key.n++] = (uint32_t)depth;
    m->key.at[m->key.n++] = 0;
    for (size_t i = 0; i < depth && r->at; i++) {
        size_t id = get_below(r, d->locations.n + 1);
        if (!id)
            return -EBADMSG;
        m->key.at[m->key.n++] = m->location_map.at[id - 1];
    }
    size_t n_labels = get_count(r);
    if (!dp_vec_room(&m->key, n_labels + 1))
        return -ENOMEM;
    for (size_t i = 0; i < n_labels && r->at; i++) {
        struct dp_model_label label = {.key = m->string_map.at[get_below(r, d->strings.n)]};
        label.str = m->string_map.at[get_below(r, d->strings.n)];
        label.num = get_signed(r);
        label.num_unit = m->string_map.at[get_below(r, d->strings.n)];
        uint32_t number = dp_model_intern_label(m, &label);
        if (number == DP_INDEX_NONE)
            return -ENOMEM;
        m->key.at[m->key.n++] = number;
    }
    if (!r->at)
        return -EBADMSG;
    m->key.at[1] = (uint32_t)n_labels;
    dp_model_sort_labels(m->key.at);
    *row = dp_model_intern_row(m, m->key.at, m->key.n);
    return *row == DP_INDEX_NONE ? -ENOMEM : 0;
}

/* The values that a process has at the moment that is read. */
struct state {
    DP_VEC(uint32_t) rows; /* of the model, by row of the field */
    DP_VEC(int64_t) values;
    uint32_t types[DP_MOMENTS_TYPES_MAX]; /* of the model */
    size_t n_types;
};

static int read_changes(struct reader *r, struct state *s)
{
    int64_t row = 0;
    for (size_t n = get_count(r); n > 0 && r->at; n--) {
        if (__builtin_add_overflow(row, get_signed(r), &row) || row < 0 || (size_t)row >= s->rows.n)
            return -EBADMSG;
        for (size_t i = 0; i < s->n_types; i++) {
            int64_t *to = &s->values.at[(size_t)row * s->n_types + i];
            *to = (int64_t)((uint64_t)*to + (uint64_t)get_signed(r)); /* as the writer's difference, modulo 2^64 */
        }
    }
    return r->at ? 0 : -EBADMSG;
}

static int read_rows(struct reader *r, const struct dp_decode *d, struct dp_model *m, struct state *s)
{
    size_t n_rows = get_count(r);
    int err = 0;
    if (!dp_vec_room(&s->rows, n_rows + 1) || !dp_vec_room(&s->values, n_rows * s->n_types + 1))
        return -ENOMEM;
    for (size_t i = 0; i < n_rows && !err; i++)
        err = read_row(r, d, m, &s->rows.at[s->rows.n++]);
    s->values.n = n_rows * s->n_types;
    for (size_t i = 0, n = 0; i < m->types.n && n < s->n_types; i++)
        if (dp_model_moments_is_state(m, i))
            s->types[n++] = (uint32_t)i;
    return err;
}

int dp_model_moments_values(const struct dp_decode *d, struct dp_model *m, const bool *wanted, dp_model_moments_fn fn,
                            void *ctx)
{
    struct reader r;
    struct state s = {.n_types = 0};
    if (!find_field(d, &r, &s.n_types))
        return -EBADMSG;
    int err = read_rows(&r, d, m, &s);
    uint64_t process = 0;
    size_t n_moments = err ? 0 : get_count(&r);
    for (size_t i = 0; i < n_moments && !err; i++) {
        struct dp_model_moment moment = get_moment(&r);
        if (!i || moment.process != process)
            memset(s.values.at, 0, s.values.n * sizeof *s.values.at);
        process = moment.process;
        err = read_changes(&r, &s);
        for (size_t j = 0; j < s.values.n && !err && wanted[i]; j++)
            if (s.values.at[j])
                err = fn(ctx, i, s.rows.at[j / s.n_types], s.types[j % s.n_types], s.values.at[j]);
    }
    dp_vec_fini(&s.rows);
    dp_vec_fini(&s.values);
    return err;
}
