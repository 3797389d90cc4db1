/* SPDX-License-Identifier: MIT */
/*
 * pprof/encode.h - one profile.proto message, written in one streaming pass.
 *
 * Source: github.com/google/pprof/proto/profile.proto. Messages are written when they are given; ids of locations and
 * functions are dense from 1 in the order given, strings are deduplicated by content, mappings come last and get the
 * ids that locations already named. Errors stick: the first one is returned by finish, later calls do nothing.
 * Memory: the string set and the function set, from dp_mem; no buffer that grows with the output.
 *
 * `extra` is fields of a message that this version does not know, as they came on the wire; they are written behind
 * ours.
 */
#pragma once

#include "pprof/gzip.h"

#include <stdint.h>

struct dp_encode;

struct dp_encode_extra {
    const void *bytes;
    size_t n_bytes;
};

/* fn takes the uncompressed message in pieces. NULL: no memory. */
struct dp_encode *dp_encode_new(dp_write_fn fn, void *ctx);
void dp_encode_free(struct dp_encode *); /* takes NULL */
/* For another message, whatever became of the last one: as new, with the memory that it has. */
void dp_encode_reset(struct dp_encode *, dp_write_fn fn, void *ctx);
size_t dp_encode_bytes(const struct dp_encode *); /* its memory; 0 for NULL */

struct dp_encode_value_type {
    const char *type, *unit;
};

/* Profile-wide fields; call it first. duration_ns 0 for a cumulative profile. default_type NULL: the last. */
struct dp_encode_header {
    const struct dp_encode_value_type *types;
    size_t n_types;
    struct dp_encode_value_type period_type;
    int64_t period;
    int64_t time_ns, duration_ns;
    const char *default_type;
};
void dp_encode_header(struct dp_encode *, const struct dp_encode_header *);
void dp_encode_comment(struct dp_encode *, const char *text);

/* Gives the extra fields of the next sample, location, function or mapping; they must live until it is given. */
void dp_encode_extra(struct dp_encode *, struct dp_encode_extra extra);
/* A field of the profile itself, as it is on the wire. */
void dp_encode_raw(struct dp_encode *, const void *bytes, size_t n_bytes);

/* Index of a string; 0 for "" and NULL. Bytes that are not UTF-8 are replaced by U+FFFD. */
int64_t dp_encode_string(struct dp_encode *, const char *text, size_t n_bytes);

/* A function, the same id for the same four values. */
uint64_t dp_encode_function(struct dp_encode *, int64_t name, int64_t system_name, int64_t file, int64_t start_line);

struct dp_encode_line {
    uint64_t function;
    int64_t line;
    int64_t column;
    struct dp_encode_extra extra;
};
/* Always a new location: the caller knows which it has given. mapping: id that dp_encode_mapping will define. */
uint64_t dp_encode_location(struct dp_encode *, uint64_t mapping, uint64_t address, const struct dp_encode_line *lines,
                            size_t n_lines);

struct dp_encode_label {
    int64_t key, str; /* string indices; str 0: the number counts */
    int64_t num, num_unit;
    struct dp_encode_extra extra;
};
void dp_encode_sample(struct dp_encode *, const uint64_t *locations, size_t n_locations, const int64_t *values,
                      const struct dp_encode_label *labels, size_t n_labels);

/*
 * A location id as a sample says it, for callers that give the same ones over and over: the bytes of its varint, and on
 * top their number; ids of 2^21 and more as they are, with 0 on top. 0: an id that does not fit, 2^24 and more.
 */
static inline uint32_t dp_encode_ref(uint64_t location)
{
    uint32_t id = (uint32_t)location;
    if (location >> 21)
        return location >> 24 ? 0 : id;
    return id < 1u << 7    ? 1u << 24 | id
           : id < 1u << 14 ? 2u << 24 | (id & 0x7f) | 0x80 | (id & 0x3f80) << 1
                           : 3u << 24 | (id & 0x7f) | 0x8080 | (id & 0x3f80) << 1 | (id & 0x1fc000) << 2;
}
/* dp_encode_sample by refs; at least one. */
void dp_encode_sample_refs(struct dp_encode *, const uint32_t *refs, size_t n_refs, const int64_t *values,
                           const struct dp_encode_label *labels, size_t n_labels);

struct dp_encode_mapping {
    uint64_t start, limit, offset;
    int64_t file, build_id; /* string indices */
    int has_functions, has_filenames, has_line_numbers, has_inline_frames;
};
/* Ids 1, 2, ... in the order given; 1 is the main program. */
uint64_t dp_encode_mapping(struct dp_encode *, const struct dp_encode_mapping *);

/* Writes what is left. 0, or the first error. */
int dp_encode_finish(struct dp_encode *);
