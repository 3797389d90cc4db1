/* SPDX-License-Identifier: MIT */
/*
 * pprof/decode.h - one profile.proto message taken apart: where each sample and string lies, and what the other tables
 * say, with every index and id checked.
 *
 * Nothing is copied: strings and samples stay where they are in the caller's bytes, which must outlive the struct. Any
 * order of fields; packed or unpacked; ids of any size. References to other messages are positions in the vectors here,
 * plus one where 0 means none. Errors name the byte and the field.
 */
#pragma once

#include "base/mem.h"
#include "pprof/decode_input.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dp_decode_span {
    uint32_t offset, n_bytes; /* in the caller's bytes */
};

struct dp_decode_value_type {
    uint32_t type, unit; /* strings */
};

struct dp_decode_mapping {
    uint64_t id, start, limit, offset;
    uint32_t file, build_id; /* strings */
    bool has_functions, has_filenames, has_line_numbers, has_inline_frames;
    struct dp_decode_span message;
    bool has_unknown; /* the message has fields that we do not know */
};

struct dp_decode_function {
    uint64_t id;
    uint32_t name, system_name, file; /* strings */
    int64_t start_line;
    struct dp_decode_span message;
    bool has_unknown; /* the message has fields that we do not know */
};

struct dp_decode_location {
    uint64_t id, address, mapping_id;
    uint32_t mapping; /* position + 1 */
    uint32_t first_line, n_lines;
    struct dp_decode_span message;
    bool has_unknown; /* or is_folded, which nobody here uses */
};

struct dp_decode_line {
    uint64_t function_id;
    uint32_t function; /* position + 1 */
    int64_t line, column;
    struct dp_decode_span unknown; /* the message, if it has fields that we do not know; else no bytes */
};

struct dp_decode_label {
    uint32_t key, str, num_unit; /* strings */
    int64_t num;
    struct dp_decode_span unknown;
};

/* Ids of one kind of message and where they stand: an array while ids are small, else a hash. */
struct dp_decode_ids {
    uint32_t *at;     /* position + 1; 0: no such id */
    uint64_t *hashed; /* NULL: at[id]; else at[] belongs to these ids, by open addressing */
    size_t n_at, n_mapped;
    uint64_t seed; /* of the hashes */
    bool in_order; /* the ids are 1, 2, 3, ...: position + 1 */
};

struct dp_decode {
    const uint8_t *bytes;
    size_t n_bytes;
    DP_VEC(struct dp_decode_span) strings;
    DP_VEC(struct dp_decode_span) samples;
    DP_VEC(struct dp_decode_value_type) types;
    DP_VEC(struct dp_decode_mapping) mappings;
    DP_VEC(struct dp_decode_function) functions;
    DP_VEC(struct dp_decode_location) locations;
    DP_VEC(struct dp_decode_line) lines;   /* those of a location follow each other */
    DP_VEC(uint32_t) comments;             /* strings */
    DP_VEC(struct dp_decode_span) unknown; /* whole fields of the profile that we do not know */
    struct dp_decode_value_type period_type;
    bool has_period_type;
    int64_t period, time_ns, duration_ns;
    uint32_t default_type, drop_frames, keep_frames, doc_url; /* strings */
    struct dp_decode_ids mapping_ids, function_ids, location_ids;
    bool has_time; /* to notice a second profile behind the first */
};

/* What one sample says; vectors are used again and again. */
struct dp_decode_sample {
    DP_VEC(uint32_t) locations; /* positions in decode->locations, leaf first */
    DP_VEC(int64_t) values;
    DP_VEC(struct dp_decode_label) labels;
    struct dp_decode_span unknown;
};

/*
 * Goes over the message once. Zeroed, or used before. 0, -EBADMSG with the line filled in, or -ENOMEM. bytes: at most
 * DP_INPUT_LIMIT_MAX.
 */
int dp_decode_scan(struct dp_decode *, const uint8_t *bytes, size_t n_bytes, struct dp_input_error *);
void dp_decode_fini(struct dp_decode *);

/* Takes sample i apart. Errors as scan's. */
int dp_decode_sample(const struct dp_decode *, size_t i, struct dp_decode_sample *, struct dp_input_error *);
/* The same for the values alone, of a sample known to have just the packed ones in that span. */
int dp_decode_values(const struct dp_decode *, size_t i, struct dp_decode_span, struct dp_decode_sample *,
                     struct dp_input_error *);
void dp_decode_sample_fini(struct dp_decode_sample *);

static inline const char *dp_decode_text(const struct dp_decode *d, uint32_t string, size_t *n_bytes)
{
    if (string >= d->strings.n) { /* only "", of a profile without strings */
        *n_bytes = 0;
        return "";
    }
    *n_bytes = d->strings.at[string].n_bytes;
    return (const char *)d->bytes + d->strings.at[string].offset;
}

/* Appends to out those fields of the message whose number is above last_known. 0 or -ENOMEM. */
struct dp_decode_fields {
    DP_VEC(uint8_t) bytes;
};
int dp_decode_unknown(const struct dp_decode *, struct dp_decode_span message, unsigned last_known,
                      struct dp_decode_fields *out);
