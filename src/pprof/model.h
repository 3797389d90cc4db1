/* SPDX-License-Identifier: MIT */
/*
 * pprof/model.h - what several profiles have in common: each string, function, mapping, frame and row known once.
 *
 * A row is a stack and its labels. Two frames are the same if they lie in the same object (by build-id, else by file)
 * at the same place in it, wherever it was loaded; where there is no object or no address, if they have the same
 * address and the same lines. What is kept of a frame (mapping, address, lines) is the newest that has names. Values
 * are the caller's, in arrays by row. Memory: dp_mem; it grows with what is different, not with the number of profiles.
 */
#pragma once

#include "pprof/decode.h"
#include "pprof/decode_repeat.h"
#include "pprof/index.h"
#include "pprof/strings.h"

/* Fields that this version does not know, in model->unknown. */
struct dp_model_unknown {
    uint32_t offset, n_bytes;
};

struct dp_model_mapping {
    uint64_t start, limit, offset;
    uint32_t file, build_id; /* strings */
    bool has_functions, has_filenames, has_line_numbers, has_inline_frames;
    uint32_t object; /* the same for the same object; 0: addresses are not relative to anything */
    struct dp_model_unknown unknown;
};

struct dp_model_function {
    uint32_t name, system_name, file; /* strings */
    int64_t start_line;
    struct dp_model_unknown unknown;
};

struct dp_model_line {
    uint32_t function; /* number + 1; 0: none */
    int64_t line, column;
    struct dp_model_unknown unknown;
};

struct dp_model_location {
    uint64_t place;   /* address - start + offset, or the address itself */
    uint32_t object;  /* the mapping's */
    bool by_lines;    /* lines are part of what it is */
    uint32_t mapping; /* number + 1 */
    uint64_t address;
    uint32_t first_line, n_lines;
    struct dp_model_unknown unknown;
};

struct dp_model_label {
    uint32_t key, str, num_unit; /* strings */
    int64_t num;
    struct dp_model_unknown unknown;
};

/* words[key..]: n_locations, n_labels, location numbers leaf first, label numbers in ascending order. */
struct dp_model_row {
    uint32_t key;
    struct dp_model_unknown unknown;
};

struct dp_model_type {
    uint32_t type, unit; /* strings */
};

struct dp_model {
    struct dp_strings strings;
    DP_VEC(struct dp_model_type) types;
    DP_VEC(struct dp_model_mapping) mappings;
    DP_VEC(struct dp_model_function) functions;
    DP_VEC(struct dp_model_location) locations;
    DP_VEC(struct dp_model_line) lines;
    DP_VEC(struct dp_model_label) labels;
    DP_VEC(struct dp_model_row) rows;
    DP_VEC(uint32_t) words;
    DP_VEC(uint8_t) unknown;
    struct dp_index mapping_index, function_index, location_index, label_index, row_index;
    DP_VEC(uint32_t) ignored; /* strings: keys of labels that are no part of a row */
    uint32_t main_mapping;    /* number + 1 of the newest profile's first */
    bool is_series;           /* set by who adds successive profiles of one process: samples repeat themselves */
    struct dp_repeat repeat;

    /* Of the profile that is being added: its positions, as numbers here. */
    DP_VEC(uint32_t) string_map;
    DP_VEC(uint32_t) mapping_map;
    DP_VEC(uint32_t) function_map;
    DP_VEC(uint32_t) location_map;
    struct dp_decode_sample sample;
    DP_VEC(uint32_t) key;
    DP_VEC(struct dp_model_line) location_lines;
    struct dp_decode_fields fields;
};

/* Labels with this key are left out of rows from now on. 0 or -ENOMEM. */
int dp_model_ignore_label(struct dp_model *, const char *key);

/*
 * Adds a profile that has been scanned. row is called for each of its samples, in order, with the row's number: below
 * model->rows.n, dense, the same for the same row. Sample types must be those of the first profile. 0, -EBADMSG with
 * the line filled in (rows may have been called; throw the model away), -ENOMEM, or row's error.
 */
typedef int (*dp_model_row_fn)(void *ctx, uint32_t row, const int64_t *values);
int dp_model_add(struct dp_model *, const struct dp_decode *, dp_model_row_fn row, void *ctx, struct dp_input_error *);
void dp_model_fini(struct dp_model *);

/* "alloc_objects, alloc_space", as far as there is room; "none". */
void dp_model_type_names(const struct dp_model *, char *to, size_t n_bytes);

static inline const char *dp_model_text(const struct dp_model *m, uint32_t string)
{
    return dp_strings_at(&m->strings, string);
}

static inline uint32_t dp_model_depth(const struct dp_model *m, uint32_t row)
{
    return m->words.at[m->rows.at[row].key];
}

static inline const uint32_t *dp_model_stack(const struct dp_model *m, uint32_t row)
{
    return &m->words.at[m->rows.at[row].key + 2];
}

static inline uint32_t dp_model_n_labels(const struct dp_model *m, uint32_t row)
{
    return m->words.at[m->rows.at[row].key + 1];
}

static inline const uint32_t *dp_model_labels(const struct dp_model *m, uint32_t row)
{
    return dp_model_stack(m, row) + dp_model_depth(m, row);
}
