/* SPDX-License-Identifier: MIT */
/*
 * tool/model/model.c - adds a scanned profile to the model: strings first, then the entries that refer to them, samples
 * last. Each position in the profile is mapped to a number in the model.
 *
 * It is fast because of the guess of index.h: in a steady state each entry is compared with the one that followed last
 * time, and nothing more. The model grows only by new entries; compact.h removes old ones.
 */
#include "tool/model/model.h"

#include "base/hash.h"
#include "tool/model/intern.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int dp_model_ignore_label(struct dp_model *m, const char *key)
{
    uint32_t string = dp_strings_add(&m->strings, key, strlen(key));
    uint32_t *to = string == DP_STRINGS_NONE ? NULL : dp_vec_push(&m->ignored);
    if (!to)
        return -ENOMEM;
    *to = string;
    return 0;
}

int dp_model_set_label(struct dp_model *m, const char *key, const char *value)
{
    struct dp_model_label label = {.key = dp_strings_add(&m->strings, key, strlen(key)),
                                   .str = dp_strings_add(&m->strings, value, strlen(value))};
    uint32_t number =
        label.key == DP_STRINGS_NONE || label.str == DP_STRINGS_NONE ? DP_INDEX_NONE : dp_model_intern_label(m, &label);
    if (number == DP_INDEX_NONE)
        return -ENOMEM;
    m->more_label = number + 1;
    return 0;
}

/* *holds becomes false if an index has another meaning than in the profile before. */
static int add_strings(struct dp_model *m, const struct dp_decode *d, bool *holds)
{
    size_t n_before = m->string_map.n;
    *holds &= d->strings.n + 1 >= n_before;
    dp_vec_clear(&m->string_map);
    if (!dp_vec_room(&m->string_map, d->strings.n + 1) || dp_strings_add(&m->strings, "", 0) == DP_STRINGS_NONE)
        return -ENOMEM; /* a profile may have no strings, a model has "" */
    m->string_map.n = d->strings.n + 1;
    if (!d->strings.n)
        m->string_map.at[0] = 0;
    dp_index_rewind(&m->strings.index);
    for (uint32_t i = 0; i < d->strings.n; i++) {
        size_t n;
        const char *text = dp_decode_text(d, i, &n);
        uint32_t number = dp_strings_add(&m->strings, text, n);
        if (number == DP_STRINGS_NONE)
            return -ENOMEM;
        *holds &= i + 1 >= n_before || m->string_map.at[i] == number;
        m->string_map.at[i] = number;
    }
    return 0;
}

/* Whether these are the types of a heap profile: Go's four, and perhaps more (types=waste, age=on). */
static bool is_heap(const struct dp_model *m, const struct dp_model_type *types, size_t n)
{
    static const char *const base[] = {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"};
    size_t n_found = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < sizeof base / sizeof *base; j++)
            n_found += !strcmp(dp_model_text(m, types[i].type), base[j]);
    return n_found == sizeof base / sizeof *base;
}

/*
 * Where each type of the model stands in a heap profile with more or fewer types. Values of types that the profile does
 * not have are 0, and types that the model does not have are left out. False: it is no heap profile. Sets is_mapped,
 * unless there is no memory.
 */
static bool map_types(struct dp_model *m, const struct dp_decode *d)
{
    DP_VEC(struct dp_model_type) there = {0};
    if (!dp_vec_room(&there, d->types.n + 1))
        return true;
    for (size_t i = 0; i < d->types.n; i++)
        there.at[there.n++] =
            (struct dp_model_type){m->string_map.at[d->types.at[i].type], m->string_map.at[d->types.at[i].unit]};
    bool is_one = is_heap(m, there.at, there.n);
    dp_vec_clear(&m->type_map);
    dp_vec_clear(&m->mapped);
    m->is_mapped = is_one && dp_vec_room(&m->type_map, m->types.n) && dp_vec_room(&m->mapped, m->types.n);
    for (size_t i = 0; i < m->types.n && m->is_mapped; i++) {
        m->type_map.at[i] = UINT32_MAX;
        for (size_t j = 0; j < there.n; j++)
            if (there.at[j].type == m->types.at[i].type && there.at[j].unit == m->types.at[i].unit)
                m->type_map.at[i] = (uint32_t)j;
    }
    dp_vec_fini(&there);
    return is_one;
}

/* The values of the sample by the model's types. */
static const int64_t *values_of_sample(struct dp_model *m)
{
    for (size_t i = 0; i < m->types.n && m->is_mapped; i++)
        m->mapped.at[i] = m->type_map.at[i] == UINT32_MAX ? 0 : m->sample.values.at[m->type_map.at[i]];
    return m->is_mapped ? m->mapped.at : m->sample.values.at;
}

static int add_types(struct dp_model *m, const struct dp_decode *d, struct dp_decode_error *error)
{
    bool is_first = m->types.n == 0;
    if (is_first && !dp_vec_room(&m->types, d->types.n + 1))
        return -ENOMEM;
    int same = is_first || m->types.n == d->types.n;
    for (size_t i = 0; same && i < d->types.n; i++) {
        struct dp_model_type type = {m->string_map.at[d->types.at[i].type], m->string_map.at[d->types.at[i].unit]};
        if (is_first)
            m->types.at[m->types.n++] = type;
        same = m->types.at[i].type == type.type && m->types.at[i].unit == type.unit;
    }
    m->is_mapped = false;
    if (same)
        return 0;
    if (is_heap(m, m->types.at, m->types.n) && map_types(m, d))
        return m->is_mapped ? 0 : -ENOMEM;
    const char *here = d->types.n ? dp_model_text(m, m->string_map.at[d->types.at[0].type]) : "none";
    return dp_decode_fail(error,
                          "another kind of profile: %zu sample types from %s on; before it there were %zu from %s on",
                          d->types.n, here, m->types.n, dp_model_text(m, m->types.at[0].type));
}

/* Copies the unknown fields of a message: those above the last known number. */
static int get_unknown(struct dp_model *m, const struct dp_decode *d, struct dp_decode_span message,
                       unsigned last_known, struct dp_model_unknown *unknown)
{
    dp_vec_clear(&m->fields.bytes);
    if (dp_decode_unknown(d, message, last_known, &m->fields))
        return -ENOMEM;
    return dp_model_intern_unknown(m, m->fields.bytes.at, m->fields.bytes.n, unknown);
}

static int add_mappings(struct dp_model *m, const struct dp_decode *d)
{
    dp_vec_clear(&m->mapping_map);
    if (!dp_vec_room(&m->mapping_map, d->mappings.n + 1))
        return -ENOMEM;
    dp_index_rewind(&m->mapping_index);
    for (size_t i = 0; i < d->mappings.n; i++) {
        const struct dp_decode_mapping *from = &d->mappings.at[i];
        struct dp_model_mapping mapping = {
            .start = from->start,
            .limit = from->limit,
            .offset = from->offset,
            .file = m->string_map.at[from->file],
            .build_id = m->string_map.at[from->build_id],
            .has_functions = from->has_functions,
            .has_filenames = from->has_filenames,
            .has_line_numbers = from->has_line_numbers,
            .has_inline_frames = from->has_inline_frames,
        };
        if (from->has_unknown && get_unknown(m, d, from->message, 10, &mapping.unknown))
            return -ENOMEM;
        uint32_t number = dp_model_intern_mapping(m, &mapping);
        if (number == DP_INDEX_NONE)
            return -ENOMEM;
        m->mapping_map.at[m->mapping_map.n++] = number;
    }
    if (d->mappings.n)
        m->main_mapping = m->mapping_map.at[0] + 1;
    return 0;
}

static int add_functions(struct dp_model *m, const struct dp_decode *d)
{
    dp_vec_clear(&m->function_map);
    if (!dp_vec_room(&m->function_map, d->functions.n + 1))
        return -ENOMEM;
    dp_index_rewind(&m->function_index);
    for (size_t i = 0; i < d->functions.n; i++) {
        const struct dp_decode_function *from = &d->functions.at[i];
        struct dp_model_function function = {
            .name = m->string_map.at[from->name],
            .system_name = m->string_map.at[from->system_name],
            .file = m->string_map.at[from->file],
            .start_line = from->start_line,
        };
        if (from->has_unknown && get_unknown(m, d, from->message, 5, &function.unknown))
            return -ENOMEM;
        uint32_t number = dp_model_intern_function(m, &function);
        if (number == DP_INDEX_NONE)
            return -ENOMEM;
        m->function_map.at[m->function_map.n++] = number;
    }
    return 0;
}

static int add_location(struct dp_model *m, const struct dp_decode *d, const struct dp_decode_location *from,
                        uint32_t *number)
{
    struct dp_model_location location = {
        .mapping = from->mapping ? m->mapping_map.at[from->mapping - 1] + 1 : 0,
        .address = from->address,
        .n_lines = from->n_lines,
    };
    dp_vec_clear(&m->location_lines);
    if (!dp_vec_room(&m->location_lines, from->n_lines + 1))
        return -ENOMEM;
    for (uint32_t i = 0; i < from->n_lines; i++) {
        const struct dp_decode_line *line = &d->lines.at[from->first_line + i];
        struct dp_model_line *to = &m->location_lines.at[m->location_lines.n++];
        *to = (struct dp_model_line){
            .function = line->function ? m->function_map.at[line->function - 1] + 1 : 0,
            .line = line->line,
            .column = line->column,
        };
        if (line->unknown.n_bytes && get_unknown(m, d, line->unknown, 3, &to->unknown))
            return -ENOMEM;
    }
    if (from->has_unknown && get_unknown(m, d, from->message, 4, &location.unknown))
        return -ENOMEM;
    *number = dp_model_intern_location(m, &location, m->location_lines.at);
    return *number == DP_INDEX_NONE ? -ENOMEM : 0;
}

static int add_locations(struct dp_model *m, const struct dp_decode *d, bool *holds)
{
    size_t n_before = m->location_map.n;
    *holds &= d->locations.n >= n_before;
    dp_vec_clear(&m->location_map);
    if (!dp_vec_room(&m->location_map, d->locations.n + 1))
        return -ENOMEM;
    dp_index_rewind(&m->location_index);
    for (size_t i = 0; i < d->locations.n; i++) {
        uint32_t number;
        int err = add_location(m, d, &d->locations.at[i], &number);
        if (err)
            return err;
        *holds &= i >= n_before || m->location_map.at[i] == number;
        m->location_map.at[m->location_map.n++] = number;
    }
    return 0;
}

static int is_ignored(const struct dp_model *m, uint32_t key)
{
    for (size_t i = 0; i < m->ignored.n; i++)
        if (m->ignored.at[i] == key)
            return 1;
    return 0;
}

static int compare_words(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void dp_model_sort_labels(uint32_t *key)
{
    if (key[1] > 1)
        qsort(&key[2 + key[0]], key[1], sizeof *key, compare_words);
}

/* Appends labels behind the stack in m->key; stores their number in key[1]. */
static int add_labels(struct dp_model *m, const struct dp_decode *d)
{
    size_t first = m->key.n;
    for (size_t i = 0; i < m->sample.labels.n; i++) {
        const struct dp_decode_label *from = &m->sample.labels.at[i];
        struct dp_model_label label = {
            .key = m->string_map.at[from->key],
            .str = m->string_map.at[from->str],
            .num_unit = m->string_map.at[from->num_unit],
            .num = from->num,
        };
        if (is_ignored(m, label.key))
            continue;
        if (from->unknown.n_bytes && get_unknown(m, d, from->unknown, 4, &label.unknown))
            return -ENOMEM;
        uint32_t number = dp_model_intern_label(m, &label);
        if (number == DP_INDEX_NONE)
            return -ENOMEM;
        m->key.at[m->key.n++] = number;
    }
    if (m->more_label)
        m->key.at[m->key.n++] = m->more_label - 1;
    m->key.at[1] = (uint32_t)(m->key.n - first);
    dp_model_sort_labels(m->key.at);
    return 0;
}

static int take_apart(struct dp_model *m, const struct dp_decode *d, size_t i, uint32_t *row,
                      struct dp_decode_error *error)
{
    struct dp_decode_sample *sample = &m->sample;
    int err = dp_decode_sample(d, i, sample, error);
    if (err)
        return err;
    dp_vec_clear(&m->key);
    if (!dp_vec_room(&m->key, 2 + sample->locations.n + sample->labels.n + 1))
        return -ENOMEM;
    uint32_t *key = m->key.at;
    key[0] = (uint32_t)sample->locations.n;
    key[1] = 0;
    for (size_t j = 0; j < sample->locations.n; j++)
        key[2 + j] = m->location_map.at[sample->locations.at[j]];
    m->key.n = 2 + sample->locations.n;
    if ((sample->labels.n || m->more_label) && (err = add_labels(m, d)))
        return err;
    *row = dp_model_intern_row(m, m->key.at, m->key.n);
    if (*row != DP_INDEX_NONE && sample->unknown.n_bytes)
        return get_unknown(m, d, sample->unknown, 3, &m->rows.at[*row].unknown);
    return *row == DP_INDEX_NONE ? -ENOMEM : 0;
}

static int add_sample(struct dp_model *m, const struct dp_decode *d, size_t i, uint32_t *row,
                      struct dp_decode_error *error)
{
    struct dp_model_repeat_sample parts;
    if (m->more_label ||
        !dp_model_repeat_split(&m->repeat, d, i, &parts)) /* a repeated sample may have another label */
        return take_apart(m, d, i, row, error);
    *row = dp_index_guess(&m->row_index);
    if (dp_model_repeat_is(&m->repeat, d, &parts, *row)) {
        dp_index_seen(&m->row_index, *row);
        return dp_decode_values(d, i, parts.values, &m->sample, error);
    }
    int err = take_apart(m, d, i, row, error);
    return err ? err : dp_model_repeat_keep(&m->repeat, d, &parts, *row);
}

int dp_model_add(struct dp_model *m, const struct dp_decode *d, dp_model_row_fn fn, void *ctx,
                 struct dp_decode_error *error)
{
    bool holds = true;
    int err = add_strings(m, d, &holds);
    if (!err)
        err = add_types(m, d, error);
    if (!err)
        err = add_mappings(m, d);
    if (!err)
        err = add_functions(m, d);
    if (!err)
        err = add_locations(m, d, &holds);
    if (m->is_series)
        dp_model_repeat_begin(&m->repeat, d, holds);
    dp_index_rewind(&m->label_index);
    dp_index_rewind(&m->row_index);
    for (size_t i = 0; i < d->samples.n && !err; i++) {
        uint32_t row;
        err = add_sample(m, d, i, &row, error);
        if (!err)
            err = fn(ctx, row, values_of_sample(m));
    }
    if (err == -ENOMEM)
        dp_decode_fail(error, "out of memory");
    return err;
}

size_t dp_model_type_named(const struct dp_model *m, const char *name)
{
    size_t type = 0;
    while (type < m->types.n && strcmp(dp_model_text(m, m->types.at[type].type), name))
        type++;
    return type;
}

void dp_model_type_names(const struct dp_model *m, char *to, size_t n_bytes)
{
    snprintf(to, n_bytes, "none");
    for (size_t i = 0, n = 0; i < m->types.n && n < n_bytes; i++)
        n += (size_t)snprintf(to + n, n_bytes - n, "%s%s", i ? ", " : "", dp_model_text(m, m->types.at[i].type));
}

void dp_model_fini(struct dp_model *m)
{
    dp_strings_fini(&m->strings);
    dp_vec_fini(&m->types);
    dp_vec_fini(&m->mappings);
    dp_vec_fini(&m->functions);
    dp_vec_fini(&m->locations);
    dp_vec_fini(&m->lines);
    dp_vec_fini(&m->labels);
    dp_vec_fini(&m->rows);
    dp_vec_fini(&m->words);
    dp_vec_fini(&m->unknown);
    dp_index_fini(&m->mapping_index);
    dp_index_fini(&m->function_index);
    dp_index_fini(&m->location_index);
    dp_index_fini(&m->label_index);
    dp_index_fini(&m->row_index);
    dp_vec_fini(&m->ignored);
    dp_vec_fini(&m->string_map);
    dp_vec_fini(&m->mapping_map);
    dp_vec_fini(&m->function_map);
    dp_vec_fini(&m->location_map);
    dp_model_repeat_fini(&m->repeat);
    dp_decode_sample_fini(&m->sample);
    dp_vec_fini(&m->type_map);
    dp_vec_fini(&m->mapped);
    dp_vec_fini(&m->key);
    dp_vec_fini(&m->location_lines);
    dp_vec_fini(&m->fields.bytes);
}
