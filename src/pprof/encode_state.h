/* SPDX-License-Identifier: MIT */
/* pprof/encode_state.h - shared by encode.c and encode_sample.c: the encoder's state, and how to output a message. */
#pragma once

#include "pprof/encode.h"
#include "pprof/strings.h"
#include "pprof/wire.h"

#include <errno.h>

/*
 * The parts of the output buffer. Messages of one kind lie together in the output: gzip finds longer matches in them
 * than among others, and finds them faster. Readers do not care, since fields of a message may come in any order.
 */
enum dp_encode_part {
    DP_ENCODE_REST, /* strings, mappings, and the fields that are there once */
    DP_ENCODE_FUNCTIONS,
    DP_ENCODE_LOCATIONS,
    DP_ENCODE_SAMPLES,
    DP_ENCODE_PARTS
};
enum {
    DP_ENCODE_REST_BYTES = 32 << 10,
    DP_ENCODE_FUNCTIONS_BYTES = 8 << 10,
    DP_ENCODE_LOCATIONS_BYTES = 24 << 10,
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
};

struct dp_encode {
    dp_pprof_write_fn fn;
    void *ctx;
    int err;
    bool full; /* err is -ENOMEM, of a set or of body: what was being added is not there, all else is */
    size_t n_types;
    bool in_place;                /* the current message lies in its part of out, not in body */
    struct dp_encode_extra extra; /* of the next message */
    struct dp_strings strings;
    DP_VEC(struct dp_encode_function) functions;
    struct dp_index function_index;
    uint64_t n_locations, n_mappings;
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
