/* SPDX-License-Identifier: MIT */
/* pprof/encode_state.h - shared by the files encode*.c: the encoder's state, and how to output a message. */
#pragma once

#include "pprof/encode.h"
#include "pprof/strings.h"
#include "pprof/wire.h"

#include <errno.h>

/*
 * The parts of the output buffer. Messages of one kind lie together in the output: gzip finds longer matches in them
 * than among others, and finds them faster. Readers do not care, since fields of a message may come in any order. A
 * profile of 2,000 functions fits, and so is compressed in one piece.
 */
enum dp_encode_part {
    DP_ENCODE_REST, /* strings, mappings, and the fields that are there once */
    DP_ENCODE_FUNCTIONS,
    DP_ENCODE_LOCATIONS,
    DP_ENCODE_SAMPLES,
    DP_ENCODE_PARTS
};
enum {
    DP_ENCODE_REST_BYTES = 80 << 10,
    DP_ENCODE_FUNCTIONS_BYTES = 24 << 10,
    DP_ENCODE_LOCATIONS_BYTES = 64 << 10,
    DP_ENCODE_SAMPLES_BYTES = 64 << 10,
    DP_ENCODE_OUT_BYTES =
        DP_ENCODE_REST_BYTES + DP_ENCODE_FUNCTIONS_BYTES + DP_ENCODE_LOCATIONS_BYTES + DP_ENCODE_SAMPLES_BYTES
};

enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING = 6,
    PROFILE_TIME_NANOS = 9,
    PROFILE_DURATION_NANOS = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_TYPE = 14,
};

struct dp_encode_function {
    int64_t name, system_name, file, start_line;
    uint64_t id;
};

/* A function that dp_encode_function_new wrote, and its name: they are in neither set. */
struct dp_encode_unsearched {
    const char *name;
    uint32_t n_bytes, hash, index; /* of the string */
    uint64_t id;
};

/* Bits by hash of strings. A clear bit: no such string. */
#define DP_ENCODE_SEARCHED_BITS   4096u
#define DP_ENCODE_UNSEARCHED_BITS 65536u

struct dp_encode {
    dp_pprof_write_fn fn;
    void *ctx;
    int err;
    bool full; /* err is -ENOMEM, of a set or of body: what was being added is not there, all else is */
    size_t n_types;
    bool in_place;                               /* the current message lies in its part of out, not in body */
    struct dp_encode_extra extra;                /* of the next message */
    struct dp_strings strings;                   /* those that may come again */
    DP_VEC(uint32_t) string_indices;             /* in the profile, by number of the set */
    uint32_t n_strings;                          /* in the profile */
    DP_VEC(struct dp_encode_function) functions; /* those that may come again */
    struct dp_index function_index;
    DP_VEC(struct dp_encode_unsearched) unsearched;
    bool searches_all; /* a string might have been in `unsearched`: they were added to the sets, and no more come */
    uint64_t searched_bits[DP_ENCODE_SEARCHED_BITS / 64], unsearched_bits[DP_ENCODE_UNSEARCHED_BITS / 64];
    uint64_t n_functions, n_locations, n_mappings;
    DP_VEC(uint8_t) body;
    uint8_t *ends[DP_ENCODE_PARTS]; /* the ends of what the parts contain */
    uint8_t out[DP_ENCODE_OUT_BYTES];
};

/* The limits of the parts in the buffer: part p lies from limit p to limit p + 1. */
static inline size_t dp_encode_limit(enum dp_encode_part limit)
{
    return (limit > DP_ENCODE_REST ? DP_ENCODE_REST_BYTES : 0) +
           (limit > DP_ENCODE_FUNCTIONS ? DP_ENCODE_FUNCTIONS_BYTES : 0) +
           (limit > DP_ENCODE_LOCATIONS ? DP_ENCODE_LOCATIONS_BYTES : 0) +
           (limit > DP_ENCODE_SAMPLES ? DP_ENCODE_SAMPLES_BYTES : 0);
}
static inline size_t dp_encode_left(const struct dp_encode *e, enum dp_encode_part part)
{
    return (size_t)(e->out + dp_encode_limit(part + 1) - e->ends[part]);
}

static inline bool dp_encode_has_bit(const uint64_t *bits, uint32_t n_bits, uint32_t hash)
{
    return bits[hash % n_bits / 64] >> hash % 64 & 1;
}
static inline void dp_encode_set_bit(uint64_t *bits, uint32_t n_bits, uint32_t hash)
{
    bits[hash % n_bits / 64] |= (uint64_t)1 << hash % 64;
}

/* Adds what is in `unsearched` to the sets. Without memory for that, a string or a function may be written twice. */
void dp_encode_search_all(struct dp_encode *);

/* Passes the output buffer's content to fn. */
void dp_encode_flush(struct dp_encode *);

/* There is no memory for what is being added. */
static inline void dp_encode_set_full(struct dp_encode *e)
{
    e->err = -ENOMEM;
    e->full = true;
}

/* Room in body for a message of n_bytes and its extra fields, or NULL. */
uint8_t *dp_encode_begin(struct dp_encode *, size_t n_bytes);

/* Writes a whole message. */
void dp_encode_message(struct dp_encode *, enum dp_encode_part part, unsigned field, const void *bytes, size_t n_bytes);

static inline uint8_t *put_extra(uint8_t *at, const struct dp_encode_extra *extra)
{
    if (extra->n_bytes)
        memcpy(at, extra->bytes, extra->n_bytes);
    return at + extra->n_bytes;
}

#define DP_ENCODE_SHORT     127                      /* bytes of the longest message whose length takes one byte */
#define DP_ENCODE_FIELD_MAX (1 + DP_WIRE_VARINT_MAX) /* with a tag of one byte */

/* Begins a message of at most n_bytes and its extra fields. NULL: out of memory, or an earlier error. */
static inline uint8_t *dp_encode_open(struct dp_encode *e, enum dp_encode_part part, size_t n_bytes)
{
    e->in_place = n_bytes + e->extra.n_bytes <= DP_ENCODE_SHORT;
    if (!e->in_place)
        return dp_encode_begin(e, n_bytes);
    if (2 + DP_ENCODE_SHORT + DP_WIRE_SLACK > dp_encode_left(e, part))
        dp_encode_flush(e);
    return e->err ? NULL : e->ends[part] + 2;
}

/* Ends the message. at: the end of its fields. */
static inline void dp_encode_close(struct dp_encode *e, enum dp_encode_part part, unsigned field, uint8_t *at)
{
    if (e->extra.n_bytes) {
        at = put_extra(at, &e->extra);
        e->extra = (struct dp_encode_extra){0};
    }
    if (!e->in_place) {
        dp_encode_message(e, part, field, e->body.at, (size_t)(at - e->body.at));
        return;
    }
    uint8_t *head = e->ends[part];
    head[0] = (uint8_t)dp_wire_tag(field, DP_WIRE_BYTES);
    head[1] = (uint8_t)(at - head - 2);
    e->ends[part] = at;
}
