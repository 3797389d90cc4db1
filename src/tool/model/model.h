/* SPDX-License-Identifier: MIT */
/*
 * tool/model/model.h - holds several profiles together: each string, function, mapping, frame and row is stored once.
 *
 * A row is a stack and its labels. Two frames are the same if they lie at the same place of the same object (by
 * build-id, else by file), wherever it was loaded. A file without a build-id may be another build each time: there the
 * names that both profiles have must be equal, too. Without object or address frames are the same if address and lines
 * are equal. Mapping, address and lines of a frame are those of the newest profile that has names for it. The caller
 * keeps the values, in arrays by row. Memory: dp_mem; it grows with the number of different entries, not of profiles.
 */
#pragma once

#include "tool/model/repeat.h"
#include "pprof/decode.h"
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
    uint32_t object; /* the same for the same object; 0: addresses are absolute */
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
    bool by_lines;    /* lines are part of its identity */
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
    DP_VEC(uint32_t) ignored; /* strings: keys of labels that are ignored */
    uint32_t more_label;      /* one that every sample gets, + 1; 0: none */
    uint32_t main_mapping;    /* number + 1 of the newest profile's first mapping */
    bool is_series;           /* set by the caller for successive profiles of one process: samples repeat */
    struct dp_model_repeat repeat;

    /* For the profile that is being added: position there -> number here. */
    DP_VEC(uint32_t) string_map;
    DP_VEC(uint32_t) mapping_map;
    DP_VEC(uint32_t) function_map;
    DP_VEC(uint32_t) location_map;
    bool is_mapped;            /* it has other types than the model */
    DP_VEC(uint32_t) type_map; /* then: type here -> there; UINT32_MAX: not there */
    DP_VEC(int64_t) mapped;    /* and the values of the sample by the types here */
    struct dp_decode_sample sample;
    DP_VEC(uint32_t) key;
    DP_VEC(struct dp_model_line) location_lines;
    struct dp_decode_fields fields;
};

/* Ignores labels with this key from now on. 0 or -ENOMEM. */
int dp_model_ignore_label(struct dp_model *, const char *key);

/* Gives all samples that are added from now on this label too. 0 or -ENOMEM. */
int dp_model_set_label(struct dp_model *, const char *key, const char *value);

/*
 * Adds a scanned profile. Calls row for each of its samples, in order, with the row's number: dense, below
 * model->rows.n, the same for the same row. Sample types must be those of the first profile, but heap profiles may have
 * more or fewer than it: the values are those of its types, 0 if they are missing. Returns 0; -EBADMSG with
 * *error filled in; -ENOMEM; or row's error. After an error the model must be discarded.
 */
typedef int (*dp_model_row_fn)(void *ctx, uint32_t row, const int64_t *values);
int dp_model_add(struct dp_model *, const struct dp_decode *, dp_model_row_fn row, void *ctx, struct dp_decode_error *);
void dp_model_fini(struct dp_model *);

/* Whether the name of a function only says where it lies: OBJECT+0xPLACE. */
bool dp_model_is_place(const char *name);

/* The number of the sample type of that name; types.n: there is none. */
size_t dp_model_type_named(const struct dp_model *, const char *name);
/* Writes "alloc_objects, alloc_space", cut to n_bytes; "none" if there are no types. */
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
