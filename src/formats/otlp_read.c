/* SPDX-License-Identifier: MIT */
/*
 * formats/otlp_read.c - reads OTLP profiles as one pprof profile: each type of Profile is a sample type, each stack
 * with its attributes a row.
 *
 * Rows are joined by stack, attributes and link, so the Profiles may list them in different orders. Profiles of several
 * resources and windows are summed; their resources are not kept. Each value with a timestamp becomes a separate row,
 * with the label end_timestamp_ns.
 */
#include "formats/otlp_rows.h"

#include "pprof/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int broken(struct reader *r, const char *what)
{
    return dp_decode_fail(r->error, "no OTLP profiles, or broken ones: %s", what);
}

/* The spans of the tables' entries. */
static int read_dictionary(struct reader *r, struct span dictionary)
{
    struct field f;
    int got;
    while ((got = next_field(&dictionary, &f)) > 0) {
        if (f.number < 1 || f.number >= DICTIONARY_N || f.type != DP_WIRE_BYTES)
            continue;
        struct span *to = dp_vec_push(&r->tables[f.number]);
        if (!to)
            return -ENOMEM;
        *to = f.bytes;
    }
    return got < 0 ? broken(r, "the dictionary") : 0;
}

static int read_value_type(struct reader *r, struct span message, struct value_type *type)
{
    struct field f;
    int got;
    *type = (struct value_type){0};
    while ((got = next_field(&message, &f)) > 0) {
        if (f.number == VALUE_TYPE_TYPE)
            type->type = f.value;
        else if (f.number == VALUE_TYPE_UNIT)
            type->unit = f.value;
    }
    if (got < 0 || type->type >= r->tables[DICTIONARY_STRINGS].n || type->unit >= r->tables[DICTIONARY_STRINGS].n)
        return broken(r, "a sample type");
    return 0;
}

/* Reads a Profile without its samples. */
static int read_profile(struct reader *r, struct span message, struct profile place)
{
    struct profile *p = dp_vec_push(&r->profiles);
    struct field f;
    int got, err = 0;
    uint64_t index;
    if (!p)
        return -ENOMEM;
    *p = place;
    p->message = message;
    while (!err && (got = next_field(&message, &f)) > 0) {
        if (f.number == PROFILE_TYPE)
            err = read_value_type(r, f.bytes, &p->type);
        else if (f.number == PROFILE_PERIOD_TYPE)
            err = read_value_type(r, f.bytes, &p->period_type);
        else if (f.number == PROFILE_TIME)
            p->time_ns = (int64_t)f.value;
        else if (f.number == PROFILE_DURATION)
            p->duration_ns = (int64_t)f.value;
        else if (f.number == PROFILE_PERIOD)
            p->period = (int64_t)f.value;
        else if (f.number == PROFILE_ATTRIBUTES && r->profiles.n == 1) /* all Profiles of a file have the same */
            while (!err && next_number(&f, &index)) {
                uint64_t *to = dp_vec_push(&r->attributes);
                err = to ? (*to = index, 0) : -ENOMEM;
            }
    }
    return err ? err : got < 0 ? broken(r, "a profile") : 0;
}

/* The numbers of an array of AnyValues into r->orders. */
static int read_order(struct reader *r, struct span any)
{
    struct field array, value, number;
    dp_vec_clear(&r->orders);
    while (next_field(&any, &array) > 0)
        while (array.number == ANY_ARRAY && next_field(&array.bytes, &value) > 0)
            while (value.number == ARRAY_VALUES && next_field(&value.bytes, &number) > 0) {
                uint32_t *to = number.number == ANY_INT ? dp_vec_push(&r->orders) : NULL;
                if (number.number == ANY_INT && !to)
                    return -ENOMEM;
                if (to)
                    *to = number.value > UINT32_MAX ? UINT32_MAX : (uint32_t)number.value;
            }
    return 0;
}

static bool is_text(struct span bytes, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(bytes.end - bytes.at) == n && !memcmp(bytes.at, text, n);
}

static struct span string(const struct reader *r, uint64_t index)
{
    return dictionary_entry(r, DICTIONARY_STRINGS, index);
}

static int read_scope(struct reader *r, struct span scope)
{
    struct field f, pair;
    int err = 0;
    while (!err && next_field(&scope, &f) > 0) {
        struct span key = {0}, value = {0};
        while (f.number == SCOPE_ATTRIBUTES && next_field(&f.bytes, &pair) > 0) {
            if (pair.number == KEY_VALUE_KEY)
                key = pair.bytes;
            else if (pair.number == KEY_VALUE_KEY_INDEX)
                key = string(r, pair.value);
            else if (pair.number == KEY_VALUE_VALUE)
                value = pair.bytes;
        }
        if (key.at && is_text(key, OTLP_ORDER))
            err = read_order(r, value);
        else if (key.at && is_text(key, OTLP_DEFAULT) && next_field(&value, &pair) > 0)
            r->default_type = pair.number == ANY_STRINDEX ? string(r, pair.value) : pair.bytes;
    }
    return err;
}

static int read_scope_profiles(struct reader *r, struct span message)
{
    struct span again = message;
    struct field f;
    uint32_t n = 0;
    int got, err = 0;
    r->n_scopes++;
    dp_vec_clear(&r->orders);
    while (!err && (got = next_field(&message, &f)) > 0)
        if (f.number == SCOPE_PROFILES_SCOPE)
            err = read_scope(r, f.bytes);
    while (!err && (got = next_field(&again, &f)) > 0)
        if (f.number == SCOPE_PROFILES_PROFILES) {
            struct profile place = {.scope = r->n_scopes, .order = n, .has_order = n < r->orders.n};
            if (place.has_order)
                place.order = r->orders.at[n];
            err = read_profile(r, f.bytes, place);
            n++;
        }
    return err ? err : got < 0 ? broken(r, "a scope") : 0;
}

static int read_all(struct reader *r, struct span message)
{
    struct span again = message;
    struct field f, inner;
    int got, err = 0;
    while (!err && (got = next_field(&message, &f)) > 0)
        if (f.number == REQUEST_DICTIONARY)
            err = read_dictionary(r, f.bytes);
    if (!err && got < 0)
        err = broken(r, "the message");
    while (!err && next_field(&again, &f) > 0)
        while (!err && f.number == REQUEST_RESOURCE_PROFILES && (got = next_field(&f.bytes, &inner)) > 0)
            if (inner.number == RESOURCE_PROFILES_SCOPE_PROFILES)
                err = read_scope_profiles(r, inner.bytes);
    if (!err && got < 0)
        err = broken(r, "a resource");
    return !err && !r->profiles.n ? broken(r, "there is no profile") : err;
}

static int by_order(const void *a, const void *b)
{
    const struct profile *x = a, *y = b;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return x->message.at < y->message.at ? -1 : x->message.at > y->message.at;
}

bool dp_formats_is_otlp(const uint8_t *bytes, size_t n_bytes)
{
    struct span message = {bytes, bytes + n_bytes};
    struct field f;
    int got;
    while ((got = next_field(&message, &f)) > 0)
        if ((f.number != REQUEST_RESOURCE_PROFILES && f.number != REQUEST_DICTIONARY) || f.type != DP_WIRE_BYTES)
            return false;
    return got == 0;
}

int dp_formats_read_otlp(const uint8_t *bytes, size_t n_bytes, dp_pprof_write_fn fn, void *ctx,
                         struct dp_decode_error *error)
{
    struct reader r = {.error = error};
    int err = read_all(&r, (struct span){bytes, bytes + n_bytes});
    if (!err) {
        qsort(r.profiles.at, r.profiles.n, sizeof *r.profiles.at, by_order);
        err = dp_otlp_rows_collect(&r);
    }
    if (!err)
        err = dp_otlp_rows_write(&r, fn, ctx);
    for (int i = 0; i < DICTIONARY_N; i++)
        dp_vec_fini(&r.tables[i]);
    dp_vec_fini(&r.profiles);
    dp_vec_fini(&r.attributes);
    dp_vec_fini(&r.orders);
    dp_otlp_rows_fini(&r);
    return err;
}
