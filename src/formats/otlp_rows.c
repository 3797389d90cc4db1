/* SPDX-License-Identifier: MIT */
/* formats/otlp_rows.c - sums the Samples of OTLP Profiles that have the same stack, attributes, link and time. */
#include "formats/otlp_rows.h"

#include "formats/bytes.h"
#include "pprof/decode.h"

#include <errno.h>
#include <stdlib.h>

/* No profile has so many; each costs 8 bytes a row. */
#define MOST_TYPES 1000

/* One Sample; the vectors are reused. */
struct sample {
    uint64_t stack, link;
    DP_VEC(uint64_t) attributes;
    DP_VEC(int64_t) values;
    DP_VEC(uint64_t) times;
};

static int broken(struct reader *r, const char *what)
{
    return dp_decode_fail(r->error, "no OTLP profiles, or broken ones: %s", what);
}

static bool is_same_text(const struct reader *r, uint64_t a, uint64_t b)
{
    struct span x = dictionary_entry(r, DICTIONARY_STRINGS, a), y = dictionary_entry(r, DICTIONARY_STRINGS, b);
    return x.end - x.at == y.end - y.at && !memcmp(x.at, y.at, (size_t)(x.end - x.at));
}

/* Whether the column is of a Profile's type. Notes it as used by the scope, which may use it for one type only. */
static bool take_column(struct reader *r, struct dp_strings *used, const struct profile *p)
{
    uint32_t key[2] = {p->scope, p->column}, n = dp_strings_count(used);
    if (p->column < r->types.n && (!is_same_text(r, r->types.at[p->column].type, p->type.type) ||
                                   !is_same_text(r, r->types.at[p->column].unit, p->type.unit)))
        return false;
    return !p->has_order || dp_strings_add(used, (const char *)key, sizeof key) >= n;
}

/* Gives each type of Profile a column. */
static int add_types(struct reader *r)
{
    struct dp_strings used = {0};
    int err = 0;
    for (size_t i = 0; i < r->profiles.n && !err; i++) {
        struct profile *p = &r->profiles.at[i];
        for (p->column = 0; !take_column(r, &used, p) && p->column < r->types.n;)
            p->column++;
        struct value_type *to = p->column == r->types.n ? dp_vec_push(&r->types) : &r->types.at[p->column];
        if (to)
            *to = p->type;
        else
            err = -ENOMEM;
        if (r->types.n > MOST_TYPES)
            err = broken(r, "more than 1000 sample types");
    }
    dp_strings_fini(&used);
    return err;
}

static int read_sample(struct reader *r, struct span message, struct sample *s)
{
    struct field f;
    uint64_t value;
    int got;
    s->stack = s->link = 0;
    dp_vec_clear(&s->attributes);
    dp_vec_clear(&s->values);
    dp_vec_clear(&s->times);
    while ((got = next_field(&message, &f)) > 0) {
        if (f.number == SAMPLE_STACK)
            s->stack = f.value;
        else if (f.number == SAMPLE_LINK)
            s->link = f.value;
        while (f.number == SAMPLE_ATTRIBUTES && next_number(&f, &value)) {
            uint64_t *to = dp_vec_push(&s->attributes);
            if (!to)
                return -ENOMEM;
            *to = value;
        }
        while (f.number == SAMPLE_VALUES && next_number(&f, &value)) {
            int64_t *to = dp_vec_push(&s->values);
            if (!to)
                return -ENOMEM;
            *to = (int64_t)value;
        }
        for (bool packed = f.type == DP_WIRE_BYTES; f.number == SAMPLE_TIMESTAMPS && f.bytes.at <= f.bytes.end;) {
            uint64_t *to = !packed || f.bytes.end - f.bytes.at >= 8 ? dp_vec_push(&s->times) : NULL;
            if (!to)
                break;
            *to = f.value;
            if (packed)
                memcpy(to, f.bytes.at, 8), *to = le64toh(*to), f.bytes.at += 8;
            else
                break;
        }
    }
    if (got < 0 || s->stack >= (r->tables[DICTIONARY_STACKS].n ?: 1) || s->link >= (r->tables[DICTIONARY_LINKS].n ?: 1))
        return broken(r, "a sample");
    if (s->times.n && s->values.n && s->times.n != s->values.n)
        return broken(r, "a sample with other numbers of values and times");
    for (size_t i = 0; i < s->attributes.n; i++)
        if (s->attributes.at[i] >= r->tables[DICTIONARY_ATTRIBUTES].n)
            return broken(r, "an attribute of a sample");
    return 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Adds a value to the row of the sample at that time. */
static int add_value(struct reader *r, const struct sample *s, uint64_t time_ns, uint32_t column, int64_t value)
{
    struct dp_formats_bytes key = {0};
    size_t n_types = r->types.n;
    put_varint(&key, s->stack);
    put_varint(&key, s->link);
    put_varint(&key, time_ns);
    for (size_t i = 0; i < s->attributes.n; i++)
        put_varint(&key, s->attributes.at[i]);
    uint32_t number = key.failed ? DP_STRINGS_NONE : dp_strings_add(&r->keys, (const char *)key.at, key.n);
    dp_vec_fini(&key);
    if (number == DP_STRINGS_NONE)
        return -ENOMEM;
    size_t row = number - 1; /* a key is not empty */
    if (r->values.n < (row + 1) * n_types) {
        int64_t *new_values = dp_vec_room(&r->values, n_types);
        if (!new_values)
            return -ENOMEM;
        memset(new_values, 0, n_types * sizeof *new_values);
        r->values.n += n_types;
    }
    int64_t *sum = &r->values.at[row * n_types + column];
    if (__builtin_add_overflow(*sum, value, sum))
        *sum = value < 0 ? INT64_MIN : INT64_MAX;
    return 0;
}

static int add_sample(struct reader *r, struct sample *s, uint32_t column)
{
    int err = 0;
    if (s->attributes.n > 1)
        qsort(s->attributes.at, s->attributes.n, sizeof *s->attributes.at, by_number);
    for (size_t i = 0; i < s->times.n && !err; i++) /* without values, each time counts once */
        err = add_value(r, s, s->times.at[i], column, s->values.n ? s->values.at[i] : 1);
    for (size_t i = 0; i < s->values.n && !s->times.n && !err; i++)
        err = add_value(r, s, 0, column, s->values.at[i]);
    return err;
}

int dp_otlp_rows_collect(struct reader *r)
{
    struct sample s = {0};
    int err = add_types(r);
    for (size_t i = 0; i < r->profiles.n && !err; i++) {
        struct span message = r->profiles.at[i].message;
        struct field f;
        while (!err && next_field(&message, &f) > 0)
            if (f.number == PROFILE_SAMPLES) {
                err = read_sample(r, f.bytes, &s);
                err = err ? err : add_sample(r, &s, r->profiles.at[i].column);
            }
    }
    dp_vec_fini(&s.attributes);
    dp_vec_fini(&s.values);
    dp_vec_fini(&s.times);
    return err;
}

void dp_otlp_rows_fini(struct reader *r)
{
    dp_strings_fini(&r->keys);
    dp_vec_fini(&r->types);
    dp_vec_fini(&r->values);
    dp_vec_fini(&r->locations);
    dp_vec_fini(&r->functions);
}
