/* SPDX-License-Identifier: MIT */
/*
 * pprof/decode_fields.h - iterates over the fields of one message on the wire, and reports errors in them. Only for the
 * decode files; inline, because it is their inner loop.
 */
#pragma once

#include "pprof/decode.h"
#include "pprof/index.h"
#include "pprof/wire.h"

#include <errno.h>

/* The largest string index so far: if it is in the table, all are. */
struct largest {
    uint64_t index;
    const uint8_t *at;
    const char *message, *field;
};

struct fields {
    const uint8_t *base; /* start of the whole profile: offsets in error messages count from here */
    const uint8_t *start, *at, *end;
    const char *message; /* the message's name in profile.proto */
    struct largest *largest;
    struct dp_decode_error *error;
};

struct field {
    unsigned number;
    unsigned type;
    const uint8_t *start; /* the tag */
    uint64_t value;       /* the value of a varint */
    const uint8_t *bytes; /* the bytes of a length-prefixed field; else none */
    size_t n_bytes;
};

static __attribute__((cold, noinline)) int fail_at(const struct fields *f, const uint8_t *at, const char *field,
                                                   const char *what)
{
    return dp_decode_fail(f->error, "byte %zu: %s.%s %s", (size_t)(at - f->base), f->message, field, what);
}

static __attribute__((cold, noinline)) int fail_number(const struct fields *f, const uint8_t *at, const char *field,
                                                       uint64_t number, const char *what)
{
    return dp_decode_fail(f->error, "byte %zu: %s.%s %llu %s", (size_t)(at - f->base), f->message, field,
                          (unsigned long long)number, what);
}

static __attribute__((cold, noinline)) int wrong_type(const struct fields *f, const struct field *field,
                                                      const char *name)
{
    return dp_decode_fail(f->error, "byte %zu: %s.%s has wire type %u", (size_t)(field->start - f->base), f->message,
                          name, field->type);
}

static __attribute__((cold, noinline)) int fail_field(const struct fields *f, const struct field *field,
                                                      const char *what)
{
    if (field->start == f->base)
        return dp_decode_fail(f->error, "byte 0: not a profile");
    return dp_decode_fail(f->error, "byte %zu: field %u of a %s %s", (size_t)(field->start - f->base), field->number,
                          f->message, what);
}

/* 1, 0 at the end, or -EBADMSG. */
static inline int next_field(struct fields *f, struct field *field)
{
    if (f->at == f->end)
        return 0;
    uint64_t tag;
    field->start = field->bytes = f->at;
    field->n_bytes = 0;
    f->at = dp_wire_get(f->at, f->end, &tag);
    if (!f->at || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return fail_at(f, field->start, "(tag)", f->at ? "is none: not a profile" : "does not end");
    field->number = (unsigned)(tag >> 3);
    field->type = tag & 7;
    switch (field->type) {
    case DP_WIRE_VARINT:
        f->at = dp_wire_get(f->at, f->end, &field->value);
        return f->at ? 1 : fail_field(f, field, "is a number that does not end");
    case DP_WIRE_BYTES:
        f->at = dp_wire_get(f->at, f->end, &tag);
        if (!f->at || tag > (size_t)(f->end - f->at))
            return fail_field(f, field, "is longer than what it stands in: truncated or corrupt");
        field->bytes = f->at;
        field->n_bytes = (size_t)tag;
        f->at += tag;
        return 1;
    case DP_WIRE_FIXED64:
    case DP_WIRE_FIXED32:
        tag = field->type == DP_WIRE_FIXED64 ? 8 : 4;
        if (tag > (size_t)(f->end - f->at))
            return fail_field(f, field, "is longer than what it stands in: truncated or corrupt");
        f->at += tag;
        return 1;
    default:
        return fail_field(f, field, "has a wire type that profiles do not use");
    }
}

static inline struct fields inside(const struct fields *outer, const struct field *field, const char *message)
{
    return (struct fields){outer->base, field->bytes,   field->bytes, field->bytes + field->n_bytes,
                           message,     outer->largest, outer->error};
}

static inline int get_number(const struct fields *f, const struct field *field, const char *name, uint64_t *to)
{
    if (field->type != DP_WIRE_VARINT)
        return wrong_type(f, field, name);
    *to = field->value;
    return 0;
}

static inline int get_signed(const struct fields *f, const struct field *field, const char *name, int64_t *to)
{
    uint64_t value = 0;
    int err = get_number(f, field, name, &value);
    *to = (int64_t)value;
    return err;
}

/* Reads a string index; it is checked later, when the string table is known. */
static inline int get_string(const struct fields *f, const struct field *field, const char *name, uint32_t *to)
{
    if (field->type != DP_WIRE_VARINT)
        return wrong_type(f, field, name);
    if (field->value >= UINT32_MAX)
        return fail_number(f, field->start, name, field->value, "is no index into string_table");
    if (field->value > f->largest->index)
        *f->largest = (struct largest){field->value, field->start, f->message, name};
    *to = (uint32_t)field->value;
    return 0;
}

/* The entry of the id, or the place for it; NULL: beyond the end of an array. */
static inline uint32_t *ids_entry(const struct dp_decode_ids *ids, uint64_t id)
{
    if (!ids->hashed)
        return id < ids->n_at ? &ids->at[id] : NULL;
    size_t slot = dp_index_hash(ids->seed, id) & (ids->n_at - 1);
    while (ids->at[slot] && ids->hashed[slot] != id)
        slot = (slot + 1) & (ids->n_at - 1);
    return &ids->at[slot];
}

static inline uint32_t ids_find(const struct dp_decode_ids *ids, uint64_t id)
{
    if (__builtin_expect(!ids->hashed, 1))
        return id < ids->n_at ? ids->at[id] : 0;
    return *ids_entry(ids, id);
}

static inline int no_memory(struct dp_decode_error *error)
{
    dp_decode_fail(error, "out of memory");
    return -ENOMEM;
}

/* Whether the largest index is in the table. 0 or -EBADMSG. */
int dp_decode_check_strings(const struct dp_decode *, const struct largest *, struct dp_decode_error *);

/* decode_resolve.c: resolves every reference in the tables. 0, -EBADMSG or -ENOMEM. */
int dp_decode_resolve(struct dp_decode *, const struct largest *, struct dp_decode_error *);
