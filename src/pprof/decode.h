/* SPDX-License-Identifier: MIT */
/*
 * pprof/decode.h - parses one profile.proto message: notes where each sample and string lies, reads the other tables,
 * and checks every index and id.
 *
 * Nothing is copied: strings and samples stay in the caller's bytes, which must outlive the struct. Fields may come in
 * any order, packed or unpacked; ids may have any size. References to other messages are stored as positions in the
 * vectors here; where 0 means none, as position + 1. Errors name the byte and the field.
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
    bool has_unknown; /* or is_folded, which is not used here */
};

struct dp_decode_line {
    uint64_t function_id;
    uint32_t function; /* position + 1 */
    int64_t line, column;
    struct dp_decode_span unknown; /* the message, if it has unknown fields; else no bytes */
};

struct dp_decode_label {
    uint32_t key, str, num_unit; /* strings */
    int64_t num;
    struct dp_decode_span unknown;
};

/* Maps the ids of one kind of message to positions: an array if ids are small, else a hash table. */
struct dp_decode_ids {
    uint32_t *at;     /* position + 1; 0: no such id */
    uint64_t *hashed; /* NULL: the position of id is at[id]; else a hash table: at[i] belongs to id hashed[i] */
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
    DP_VEC(struct dp_decode_span) unknown; /* unknown fields of the profile, whole */
    struct dp_decode_value_type period_type;
    bool has_period_type;
    int64_t period, time_ns, duration_ns;
    uint32_t default_type, drop_frames, keep_frames, doc_url; /* strings */
    struct dp_decode_ids mapping_ids, function_ids, location_ids;
    bool has_time; /* detects a second profile behind the first */
};

/* The content of one sample; the vectors are reused for the next one. */
struct dp_decode_sample {
    DP_VEC(uint32_t) locations; /* positions in decode->locations, leaf first */
    DP_VEC(int64_t) values;
    DP_VEC(struct dp_decode_label) labels;
    struct dp_decode_span unknown;
};

/*
 * Scans the message once. The struct is zeroed, or was used before. Returns 0; -EBADMSG with *error filled in; or
 * -ENOMEM. bytes: at most DP_DECODE_LIMIT_MAX.
 */
int dp_decode_scan(struct dp_decode *, const uint8_t *bytes, size_t n_bytes, struct dp_decode_error *);
void dp_decode_fini(struct dp_decode *);

/* Parses sample i. Errors as for scan. */
int dp_decode_sample(const struct dp_decode *, size_t i, struct dp_decode_sample *, struct dp_decode_error *);
/* Reads only the values of a sample, which must be exactly the packed ones in that span. */
int dp_decode_values(const struct dp_decode *, size_t i, struct dp_decode_span, struct dp_decode_sample *,
                     struct dp_decode_error *);
void dp_decode_sample_fini(struct dp_decode_sample *);

static inline const char *dp_decode_text(const struct dp_decode *d, uint32_t string, size_t *n_bytes)
{
    if (string >= d->strings.n) { /* only the string "" of a profile without strings */
        *n_bytes = 0;
        return "";
    }
    *n_bytes = d->strings.at[string].n_bytes;
    return (const char *)d->bytes + d->strings.at[string].offset;
}

/* Whether the string is this text. */
bool dp_decode_is_text(const struct dp_decode *, uint32_t string, const char *text);
/* The number of the sample type of that name; types.n: there is none. */
size_t dp_decode_type_named(const struct dp_decode *, const char *name);

/* Appends the fields with a number above last_known to out. 0 or -ENOMEM. */
struct dp_decode_fields {
    DP_VEC(uint8_t) bytes;
};
int dp_decode_unknown(const struct dp_decode *, struct dp_decode_span message, unsigned last_known,
                      struct dp_decode_fields *out);
