/* SPDX-License-Identifier: MIT */
/*
 * tool/model/intern.c - defines, for each kind of entry, which entries are the same, and which details are kept when
 * one comes again.
 */
#include "tool/model/intern.h"

#include "base/hash.h"

#include <errno.h>
#include <string.h>

int dp_model_intern_unknown(struct dp_model *m, const void *bytes, size_t n_bytes, struct dp_model_unknown *unknown)
{
    if (unknown->n_bytes == n_bytes && n_bytes && !memcmp(m->unknown.at + unknown->offset, bytes, n_bytes))
        return 0;
    if (m->unknown.n + n_bytes >= UINT32_MAX || !dp_vec_room(&m->unknown, n_bytes + 1))
        return -ENOMEM;
    *unknown = (struct dp_model_unknown){(uint32_t)m->unknown.n, (uint32_t)n_bytes};
    if (n_bytes)
        memcpy(m->unknown.at + m->unknown.n, bytes, n_bytes);
    m->unknown.n += n_bytes;
    return 0;
}

static int same_mapping(const struct dp_model_mapping *a, const struct dp_model_mapping *b)
{
    return a->start == b->start && a->limit == b->limit && a->offset == b->offset && a->file == b->file &&
           a->build_id == b->build_id && a->has_functions == b->has_functions && a->has_filenames == b->has_filenames &&
           a->has_line_numbers == b->has_line_numbers && a->has_inline_frames == b->has_inline_frames;
}

/* Whether the name identifies a file. "", "[anon]", "//anon" and the like do not; the vDSO's does. */
static int is_object_name(const char *file)
{
    return *file && strncmp(file, "//", 2) && (*file != '[' || !strcmp(file, "[vdso]"));
}

static uint32_t object_of(const struct dp_model *m, const struct dp_model_mapping *mapping)
{
    if (mapping->build_id)
        return mapping->build_id << 1;
    return is_object_name(dp_model_text(m, mapping->file)) ? mapping->file << 1 | 1 : 0;
}

/* Whether only the file's name stands for the object: it has no build-id. */
static bool is_file_object(uint32_t object)
{
    return object & 1;
}

uint32_t dp_model_intern_mapping(struct dp_model *m, const struct dp_model_mapping *mapping)
{
    uint32_t number = dp_index_guess(&m->mapping_index);
    if (number == DP_INDEX_NONE || !same_mapping(&m->mappings.at[number], mapping)) {
        uint64_t hash = dp_index_hash(dp_index_seed(), mapping->start);
        hash = dp_index_hash(dp_index_hash(hash, mapping->limit), mapping->offset);
        hash = dp_index_hash(hash, (uint64_t)mapping->file << 32 | mapping->build_id);
        struct dp_index_probe probe = dp_index_probe(&m->mapping_index, hash);
        while ((number = dp_index_candidate(&m->mapping_index, &probe)) != DP_INDEX_NONE)
            if (same_mapping(&m->mappings.at[number], mapping))
                break;
        if (number == DP_INDEX_NONE) {
            if (!dp_vec_room(&m->mappings, 1) || (number = dp_index_add(&m->mapping_index, &probe)) == DP_INDEX_NONE)
                return DP_INDEX_NONE;
            m->mappings.at[m->mappings.n] = *mapping;
            m->mappings.at[m->mappings.n++].object = object_of(m, mapping);
        }
    }
    if (mapping->unknown.n_bytes)
        m->mappings.at[number].unknown = mapping->unknown;
    dp_index_seen(&m->mapping_index, number);
    return number;
}

static int same_function(const struct dp_model_function *a, const struct dp_model_function *b)
{
    return a->name == b->name && a->system_name == b->system_name && a->file == b->file &&
           a->start_line == b->start_line;
}

uint32_t dp_model_intern_function(struct dp_model *m, const struct dp_model_function *function)
{
    uint32_t number = dp_index_guess(&m->function_index);
    if (number == DP_INDEX_NONE || !same_function(&m->functions.at[number], function)) {
        uint64_t hash = dp_index_hash(dp_index_seed(), (uint64_t)function->name << 32 | function->system_name);
        hash = dp_index_hash(dp_index_hash(hash, function->file), (uint64_t)function->start_line);
        struct dp_index_probe probe = dp_index_probe(&m->function_index, hash);
        while ((number = dp_index_candidate(&m->function_index, &probe)) != DP_INDEX_NONE)
            if (same_function(&m->functions.at[number], function))
                break;
        if (number == DP_INDEX_NONE) {
            if (!dp_vec_room(&m->functions, 1) || (number = dp_index_add(&m->function_index, &probe)) == DP_INDEX_NONE)
                return DP_INDEX_NONE;
            m->functions.at[m->functions.n++] = *function;
        }
    }
    if (function->unknown.n_bytes)
        m->functions.at[number].unknown = function->unknown;
    dp_index_seen(&m->function_index, number);
    return number;
}

static int same_lines(const struct dp_model *m, const struct dp_model_location *known,
                      const struct dp_model_location *other, const struct dp_model_line *lines)
{
    if (known->n_lines != other->n_lines)
        return 0;
    const struct dp_model_line *a = &m->lines.at[known->first_line];
    for (uint32_t i = 0; i < known->n_lines; i++)
        if (a[i].function != lines[i].function || a[i].line != lines[i].line || a[i].column != lines[i].column)
            return 0;
    return 1;
}

bool dp_model_is_place(const char *name)
{
    const char *plus = strrchr(name, '+');
    return plus && !strncmp(plus, "+0x", 3) && plus[3] && !plus[3 + strspn(plus + 3, "0123456789abcdef")];
}

/* Whether the lines of a location are names that its writer found, and not just the place in other words. */
static bool has_names(const struct dp_model *m, const struct dp_model_location *location,
                      const struct dp_model_line *lines)
{
    if (!location->n_lines)
        return false;
    if (!location->mapping || m->mappings.at[location->mapping - 1].has_functions || !lines[0].function)
        return true;
    return !dp_model_is_place(dp_model_text(m, m->functions.at[lines[0].function - 1].name));
}

static uint64_t start_of(const struct dp_model *m, const struct dp_model_location *location)
{
    return location->mapping ? m->mappings.at[location->mapping - 1].start : 0;
}

/* Whether the lines are those of the known location the other way round, as at a place in a holder's stack. */
static bool is_turned(const struct dp_model *m, const struct dp_model_location *known,
                      const struct dp_model_location *other, const struct dp_model_line *lines)
{
    uint32_t n = known->n_lines;
    const struct dp_model_line *a = &m->lines.at[known->first_line];
    bool is = n > 1 && n == other->n_lines && !same_lines(m, known, other, lines);
    for (uint32_t i = 0; i < n && is; i++)
        is = a[i].function == lines[n - 1 - i].function && a[i].line == lines[n - 1 - i].line;
    return is;
}

enum fit { DIFFERENT, LIKELY, SAME };

/*
 * Whether the known location is the other one. A file's name does not say which build it is: with names on both sides,
 * these decide. Without names on one side, they are taken for one build; the same start in memory speaks for it.
 */
static enum fit fit_location(const struct dp_model *m, const struct dp_model_location *known,
                             const struct dp_model_location *other, const struct dp_model_line *lines)
{
    if (known->place != other->place || known->object != other->object || known->by_lines != other->by_lines)
        return DIFFERENT;
    if (known->by_lines)
        return same_lines(m, known, other, lines) ? SAME : DIFFERENT;
    if (is_turned(m, known, other, lines))
        return DIFFERENT; /* a chain has both */
    if (!is_file_object(known->object))
        return SAME;
    if (has_names(m, known, &m->lines.at[known->first_line]) && has_names(m, other, lines))
        return same_lines(m, known, other, lines) ? SAME : DIFFERENT;
    return start_of(m, known) == start_of(m, other) ? SAME : LIKELY;
}

static uint64_t hash_location(const struct dp_model_location *location, const struct dp_model_line *lines)
{
    uint64_t hash = dp_index_hash(dp_index_hash(dp_index_seed(), location->place), location->object);
    for (uint32_t i = 0; location->by_lines && i < location->n_lines; i++)
        hash = dp_index_hash(dp_index_hash(hash, lines[i].function), (uint64_t)lines[i].line);
    return hash;
}

/* Appends the lines to the model's. */
static int keep_lines(struct dp_model *m, struct dp_model_location *location, const struct dp_model_line *lines)
{
    if (m->lines.n + location->n_lines >= UINT32_MAX || !dp_vec_room(&m->lines, location->n_lines + 1))
        return -ENOMEM;
    location->first_line = (uint32_t)m->lines.n;
    if (location->n_lines)
        memcpy(&m->lines.at[m->lines.n], lines, location->n_lines * sizeof *lines);
    m->lines.n += location->n_lines;
    return 0;
}

/* Takes the newer details, unless only the older ones have names. */
static int refresh(struct dp_model *m, uint32_t number, struct dp_model_location *location,
                   const struct dp_model_line *lines)
{
    struct dp_model_location *known = &m->locations.at[number];
    if ((known->n_lines && !location->n_lines) ||
        (has_names(m, known, &m->lines.at[known->first_line]) && !has_names(m, location, lines)))
        return 0;
    bool is_same = same_lines(m, known, location, lines);
    if (is_same && known->mapping == location->mapping && known->address == location->address &&
        !location->unknown.n_bytes)
        return 0;
    if (is_same)
        location->first_line = known->first_line;
    else if (keep_lines(m, location, lines))
        return -ENOMEM;
    *known = *location;
    return 0;
}

uint32_t dp_model_intern_location(struct dp_model *m, const struct dp_model_location *given,
                                  const struct dp_model_line *lines)
{
    struct dp_model_location location = *given;
    const struct dp_model_mapping *mapping = given->mapping ? &m->mappings.at[given->mapping - 1] : NULL;
    location.object = mapping ? mapping->object : 0;
    location.by_lines = given->address == 0 || location.object == 0;
    location.place = given->address;
    if (given->address && location.object)
        location.place += mapping->offset - mapping->start;

    uint32_t number = dp_index_guess(&m->location_index);
    if (number == DP_INDEX_NONE || fit_location(m, &m->locations.at[number], &location, lines) != SAME) {
        struct dp_index_probe probe = dp_index_probe(&m->location_index, hash_location(&location, lines));
        uint32_t likely = DP_INDEX_NONE;
        while ((number = dp_index_candidate(&m->location_index, &probe)) != DP_INDEX_NONE) {
            enum fit fit = fit_location(m, &m->locations.at[number], &location, lines);
            if (fit == SAME)
                break;
            if (fit == LIKELY)
                likely = number;
        }
        if (number == DP_INDEX_NONE && likely != DP_INDEX_NONE) {
            number = likely;
        } else if (number == DP_INDEX_NONE) {
            if (!dp_vec_room(&m->locations, 1) || keep_lines(m, &location, lines) ||
                (number = dp_index_add(&m->location_index, &probe)) == DP_INDEX_NONE)
                return DP_INDEX_NONE;
            m->locations.at[m->locations.n++] = location;
        }
    }
    if (refresh(m, number, &location, lines))
        return DP_INDEX_NONE;
    dp_index_seen(&m->location_index, number);
    return number;
}

static int same_label(const struct dp_model_label *a, const struct dp_model_label *b)
{
    return a->key == b->key && a->str == b->str && a->num == b->num && a->num_unit == b->num_unit;
}

uint32_t dp_model_intern_label(struct dp_model *m, const struct dp_model_label *label)
{
    uint32_t number = dp_index_guess(&m->label_index);
    if (number == DP_INDEX_NONE || !same_label(&m->labels.at[number], label)) {
        uint64_t hash = dp_index_hash(dp_index_seed(), (uint64_t)label->key << 32 | label->str);
        hash = dp_index_hash(dp_index_hash(hash, (uint64_t)label->num), label->num_unit);
        struct dp_index_probe probe = dp_index_probe(&m->label_index, hash);
        while ((number = dp_index_candidate(&m->label_index, &probe)) != DP_INDEX_NONE)
            if (same_label(&m->labels.at[number], label))
                break;
        if (number == DP_INDEX_NONE) {
            if (!dp_vec_room(&m->labels, 1) || (number = dp_index_add(&m->label_index, &probe)) == DP_INDEX_NONE)
                return DP_INDEX_NONE;
            m->labels.at[m->labels.n++] = *label;
        }
    }
    if (label->unknown.n_bytes)
        m->labels.at[number].unknown = label->unknown;
    dp_index_seen(&m->label_index, number);
    return number;
}

static int same_row(const struct dp_model *m, uint32_t row, const uint32_t *key, size_t n_words)
{
    const uint32_t *known = &m->words.at[m->rows.at[row].key];
    return known[0] == key[0] && known[1] == key[1] && !memcmp(known + 2, key + 2, (n_words - 2) * sizeof *key);
}

static uint64_t hash_words(const uint32_t *words, size_t n_words)
{
    uint64_t hash = dp_index_seed() ^ n_words;
    for (; n_words >= 2; n_words -= 2, words += 2) {
        uint64_t pair;
        memcpy(&pair, words, sizeof pair);
        hash = (hash ^ pair) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return dp_hash_mix(n_words ? hash ^ *words : hash);
}

uint32_t dp_model_intern_row(struct dp_model *m, const uint32_t *key, size_t n_words)
{
    uint32_t number = dp_index_guess(&m->row_index);
    if (number == DP_INDEX_NONE || !same_row(m, number, key, n_words)) {
        struct dp_index_probe probe = dp_index_probe(&m->row_index, hash_words(key, n_words));
        while ((number = dp_index_candidate(&m->row_index, &probe)) != DP_INDEX_NONE)
            if (same_row(m, number, key, n_words))
                break;
        if (number == DP_INDEX_NONE) {
            if (m->words.n + n_words >= UINT32_MAX || !dp_vec_room(&m->words, n_words) || !dp_vec_room(&m->rows, 1) ||
                (number = dp_index_add(&m->row_index, &probe)) == DP_INDEX_NONE)
                return DP_INDEX_NONE;
            m->rows.at[m->rows.n++] = (struct dp_model_row){.key = (uint32_t)m->words.n};
            memcpy(&m->words.at[m->words.n], key, n_words * sizeof *key);
            m->words.n += n_words;
        }
    }
    dp_index_seen(&m->row_index, number);
    return number;
}
