/* SPDX-License-Identifier: MIT */
/*
 * tool/model/compact.c - copies each row to keep, from the row down to its strings, by interning it in the new model.
 */
#include "tool/model/compact.h"

#include "tool/model/intern.h"

#include <errno.h>
#include <string.h>

static uint32_t string(struct dp_model_compact *c, uint32_t old)
{
    return dp_strings_add(&c->to.strings, dp_model_text(c->from, old), dp_strings_size(&c->from->strings, old));
}

static int unknown(struct dp_model_compact *c, struct dp_model_unknown *unknown)
{
    struct dp_model_unknown old = *unknown;
    *unknown = (struct dp_model_unknown){0};
    return old.n_bytes ? dp_model_intern_unknown(&c->to, c->from->unknown.at + old.offset, old.n_bytes, unknown) : 0;
}

int dp_model_compact_begin(struct dp_model_compact *c, struct dp_model *from)
{
    *c = (struct dp_model_compact){.from = from};
    if (!dp_vec_room(&c->locations, from->locations.n + 1) || !dp_vec_room(&c->to.types, from->types.n + 1) ||
        !dp_vec_room(&c->to.ignored, from->ignored.n + 1))
        return -ENOMEM;
    for (size_t i = 0; i < from->types.n; i++) {
        struct dp_model_type type = {string(c, from->types.at[i].type), string(c, from->types.at[i].unit)};
        c->to.types.at[c->to.types.n++] = type;
        if (type.type == DP_STRINGS_NONE || type.unit == DP_STRINGS_NONE)
            return -ENOMEM;
    }
    for (size_t i = 0; i < from->ignored.n; i++)
        if ((c->to.ignored.at[c->to.ignored.n++] = string(c, from->ignored.at[i])) == DP_STRINGS_NONE)
            return -ENOMEM;
    return 0;
}

static uint32_t mapping(struct dp_model_compact *c, uint32_t old)
{
    struct dp_model_mapping m = c->from->mappings.at[old];
    m.file = string(c, m.file);
    m.build_id = string(c, m.build_id);
    if (m.file == DP_STRINGS_NONE || m.build_id == DP_STRINGS_NONE || unknown(c, &m.unknown))
        return DP_INDEX_NONE;
    return dp_model_intern_mapping(&c->to, &m);
}

static uint32_t function(struct dp_model_compact *c, uint32_t old)
{
    struct dp_model_function f = c->from->functions.at[old];
    f.name = string(c, f.name);
    f.system_name = string(c, f.system_name);
    f.file = string(c, f.file);
    if (f.name == DP_STRINGS_NONE || f.system_name == DP_STRINGS_NONE || f.file == DP_STRINGS_NONE ||
        unknown(c, &f.unknown))
        return DP_INDEX_NONE;
    return dp_model_intern_function(&c->to, &f);
}

static uint32_t location(struct dp_model_compact *c, uint32_t old)
{
    uint32_t *known = &c->locations.at[old];
    if (*known)
        return *known - 1;
    struct dp_model_location l = c->from->locations.at[old];
    dp_vec_clear(&c->lines);
    if (!dp_vec_room(&c->lines, l.n_lines + 1) || unknown(c, &l.unknown))
        return DP_INDEX_NONE;
    for (uint32_t i = 0; i < l.n_lines; i++) {
        struct dp_model_line *line = &c->lines.at[c->lines.n++];
        *line = c->from->lines.at[l.first_line + i];
        if (unknown(c, &line->unknown) ||
            (line->function && (line->function = function(c, line->function - 1) + 1) == DP_INDEX_NONE + 1))
            return DP_INDEX_NONE;
    }
    if (l.mapping && (l.mapping = mapping(c, l.mapping - 1) + 1) == DP_INDEX_NONE + 1)
        return DP_INDEX_NONE;
    uint32_t number = dp_model_intern_location(&c->to, &l, c->lines.at);
    *known = number + 1;
    return number;
}

static uint32_t label(struct dp_model_compact *c, uint32_t old)
{
    struct dp_model_label l = c->from->labels.at[old];
    l.key = string(c, l.key);
    l.str = string(c, l.str);
    l.num_unit = string(c, l.num_unit);
    if (l.key == DP_STRINGS_NONE || l.str == DP_STRINGS_NONE || l.num_unit == DP_STRINGS_NONE || unknown(c, &l.unknown))
        return DP_INDEX_NONE;
    return dp_model_intern_label(&c->to, &l);
}

int dp_model_compact_row(struct dp_model_compact *c, uint32_t row)
{
    uint32_t depth = dp_model_depth(c->from, row), n_labels = dp_model_n_labels(c->from, row);
    dp_vec_clear(&c->key);
    if (!dp_vec_room(&c->key, (size_t)depth + n_labels + 2))
        return -ENOMEM;
    uint32_t *key = c->key.at;
    key[0] = depth;
    key[1] = n_labels;
    for (uint32_t i = 0; i < depth; i++)
        if ((key[2 + i] = location(c, dp_model_stack(c->from, row)[i])) == DP_INDEX_NONE)
            return -ENOMEM;
    for (uint32_t i = 0; i < n_labels; i++)
        if ((key[2 + depth + i] = label(c, dp_model_labels(c->from, row)[i])) == DP_INDEX_NONE)
            return -ENOMEM;
    dp_model_sort_labels(key);
    uint32_t number = dp_model_intern_row(&c->to, key, (size_t)depth + n_labels + 2);
    if (number == DP_INDEX_NONE)
        return -ENOMEM;
    c->to.rows.at[number].unknown = c->from->rows.at[row].unknown;
    return unknown(c, &c->to.rows.at[number].unknown);
}

void dp_model_compact_end(struct dp_model_compact *c, int err)
{
    dp_vec_fini(&c->locations);
    dp_vec_fini(&c->key);
    dp_vec_fini(&c->lines);
    dp_model_fini(err ? &c->to : c->from);
    if (!err)
        *c->from = c->to;
}

size_t dp_model_size(const struct dp_model *m)
{
    return m->strings.bytes.n + m->strings.offsets.n * 20 + m->mappings.n * sizeof *m->mappings.at +
           m->functions.n * sizeof *m->functions.at + m->locations.n * sizeof *m->locations.at +
           m->lines.n * sizeof *m->lines.at + m->labels.n * sizeof *m->labels.at + m->rows.n * sizeof *m->rows.at +
           m->words.n * sizeof *m->words.at + m->unknown.n;
}
