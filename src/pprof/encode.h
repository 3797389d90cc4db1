/* SPDX-License-Identifier: MIT */
/*
 * pprof/encode.h - writes one profile.proto message in one streaming pass.
 *
 * Source: github.com/google/pprof/proto/profile.proto. Each message is written when it is given. Ids of locations and
 * functions count from 1 in the order given; strings are deduplicated by content; mappings come last and get the ids
 * that locations already named. After an error all calls do nothing, and finish returns that error. Memory: the string
 * set and the function set, from dp_mem; no buffer grows with the output.
 *
 * `extra` holds fields of a message that this version does not know, as they came on the wire; they are written behind
 * the known ones.
 */
#pragma once

#include "pprof/gzip.h"

#include <stdbool.h>
#include <stdint.h>

struct dp_encode;

struct dp_encode_extra {
    const void *bytes;
    size_t n_bytes;
};

/* fn takes the uncompressed message in pieces. NULL: no memory. */
struct dp_encode *dp_encode_new(dp_pprof_write_fn fn, void *ctx);
void dp_encode_free(struct dp_encode *); /* takes NULL */
/* Starts another message, even if the last one failed. Keeps the memory. */
void dp_encode_reset(struct dp_encode *, dp_pprof_write_fn fn, void *ctx);
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

/* Sets the extra fields of the next sample, location, function or mapping; the bytes must live until that is given. */
void dp_encode_extra(struct dp_encode *, struct dp_encode_extra extra);
/* Writes a field of the profile itself, given as on the wire. */
void dp_encode_raw(struct dp_encode *, const void *bytes, size_t n_bytes);

/* Index of a string; 0 for "" and NULL. Bytes that are not UTF-8 are replaced by U+FFFD. */
int64_t dp_encode_string(struct dp_encode *, const char *text, size_t n_bytes);
/* The same for a text that is known to be UTF-8, with its dp_strings_hash. */
int64_t dp_encode_string_hashed(struct dp_encode *, const char *text, size_t n_bytes, uint32_t hash);

/* The id of a function: the same id for the same four values. */
uint64_t dp_encode_function(struct dp_encode *, int64_t name, int64_t system_name, int64_t file, int64_t start_line);

/*
 * A function of which only the name is known, which is its system name, too: UTF-8, not empty, with its
 * dp_strings_hash, and kept until the profile is finished. The caller gives it once, so it is only searched if another
 * string has such a hash.
 */
uint64_t dp_encode_function_new(struct dp_encode *, const char *name, size_t n_bytes, uint32_t hash);

struct dp_encode_line {
    uint64_t function;
    int64_t line;
    int64_t column;
    struct dp_encode_extra extra;
};
/* Always writes a new location: the caller deduplicates. mapping: an id that dp_encode_mapping will define. */
uint64_t dp_encode_location(struct dp_encode *, uint64_t mapping, uint64_t address, const struct dp_encode_line *lines,
                            size_t n_lines);

/* How many locations were written: their ids are 1 to that. */
uint64_t dp_encode_locations(const struct dp_encode *);

struct dp_encode_label {
    int64_t key, str; /* string indices; str 0: the number counts */
    int64_t num, num_unit;
    struct dp_encode_extra extra;
};
void dp_encode_sample(struct dp_encode *, const uint64_t *locations, size_t n_locations, const int64_t *values,
                      const struct dp_encode_label *labels, size_t n_labels);

/* Whether all values of a sample are 0: it says nothing, and profiles leave it out. */
static inline bool dp_encode_is_zero(const int64_t *values, size_t n_values)
{
    int64_t any = 0;
    for (size_t i = 0; i < n_values; i++)
        any |= values[i];
    return !any;
}

/*
 * A location id in encoded form, for callers that give the same ids many times: the bytes of its varint, with their
 * number in the top byte. Ids from 2^21 on are stored as they are, with 0 in the top byte. 0: the id does not fit, it
 * is 2^24 or more.
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
/* The id of a ref. */
static inline uint64_t dp_encode_ref_id(uint32_t ref)
{
    return ref >> 24 ? (ref & 0x7f) | (ref >> 1 & 0x3f80) | (ref >> 2 & 0x1fc000) : ref;
}
/*
 * dp_encode_location with one line, whose function is a ref and whose number is not known. Returns a ref. 0: something
 * is unusual, as an error or a large number; then nothing was written, and dp_encode_location must do it.
 */
uint32_t dp_encode_location_usual(struct dp_encode *, uint64_t mapping, uint64_t address, uint32_t function);
/* dp_encode_sample by refs; at least one. */
void dp_encode_sample_refs(struct dp_encode *, const uint32_t *refs, size_t n_refs, const int64_t *values,
                           const struct dp_encode_label *labels, size_t n_labels);

struct dp_encode_mapping {
    uint64_t start, limit, offset;
    int64_t file, build_id; /* string indices */
    bool has_functions, has_filenames, has_line_numbers, has_inline_frames;
};
/*
 * Whether the last call failed because there was no memory; then it wrote nothing, and the error is cleared: what needs
 * no more memory can still be written. An id that the failed call returned must not be used.
 */
bool dp_encode_clear_no_memory(struct dp_encode *);
int dp_encode_error(const struct dp_encode *); /* the error that stands; 0: none */

/* Returns ids 1, 2, ... in the order given; 1 is the main program. */
uint64_t dp_encode_mapping(struct dp_encode *, const struct dp_encode_mapping *);

/* Writes the rest. Returns 0, or the first error. */
int dp_encode_finish(struct dp_encode *);
/* The same; `last` takes the last piece, if there is one, instead of fn. */
int dp_encode_finish_by(struct dp_encode *, dp_pprof_write_fn last);
