/* SPDX-License-Identifier: MIT */
/*
 * tool/formats/otlp_dictionary.c - the tables of OTLP's dictionary: strings, attributes, mappings, functions,
 * locations, stacks.
 *
 * Each table is a set of encoded messages, so that equal entries are one entry, and entry 0 is the empty message, as
 * the format asks.
 */
#include "tool/formats/otlp_writer.h"

#include "pprof/encode_utf8.h"

/* The index of an encoded message in its table. */
uint32_t dp_formats_otlp_entry(struct writer *w, int table, const struct dp_formats_bytes *message)
{
    uint32_t index = dp_strings_add(&w->tables[table], (const char *)message->at, message->n);
    w->failed |= message->failed || index == DP_STRINGS_NONE || index > INT32_MAX;
    return index == DP_STRINGS_NONE ? 0 : index;
}

static uint32_t text(struct writer *w, const char *bytes, size_t n_bytes)
{
    struct dp_formats_bytes fixed = {0};
    if (dp_encode_utf8_prefix(bytes, n_bytes) < n_bytes && dp_vec_room(&fixed, 3 * n_bytes)) {
        fixed.n = dp_encode_utf8_replace((char *)fixed.at, bytes, n_bytes);
        bytes = (const char *)fixed.at;
        n_bytes = fixed.n;
    }
    struct dp_formats_bytes message = {.at = (uint8_t *)bytes, .n = n_bytes};
    uint32_t index = dp_formats_otlp_entry(w, DICTIONARY_STRINGS, &message);
    dp_vec_fini(&fixed);
    return index;
}

uint32_t dp_formats_otlp_string(struct writer *w, uint32_t number)
{
    const struct dp_strings *strings = &w->p->model->strings;
    return text(w, dp_strings_at(strings, number), dp_strings_size(strings, number));
}

/* ---- attributes ------------------------------------------------------------------------------------------------- */

uint32_t dp_formats_otlp_attribute(struct writer *w, const char *key, const struct dp_formats_bytes *value,
                                   uint32_t unit)
{
    struct dp_formats_bytes *to = scratch(w, 0);
    put_number(to, ATTRIBUTE_KEY, text(w, key, strlen(key)));
    put_message(to, ATTRIBUTE_VALUE, value);
    put_number(to, ATTRIBUTE_UNIT, unit);
    return dp_formats_otlp_entry(w, DICTIONARY_ATTRIBUTES, to);
}

/* The value has the bytes themselves, not an index, because most readers need that. */
void dp_formats_otlp_put_string(struct writer *w, struct dp_formats_bytes *to, uint32_t number)
{
    const struct dp_strings *known = &w->tables[DICTIONARY_STRINGS];
    uint32_t index = dp_formats_otlp_string(w, number); /* for valid UTF-8 */
    put_chunk(to, ANY_STRING, dp_strings_at(known, index), dp_strings_size(known, index));
}

uint32_t dp_formats_otlp_string_attribute(struct writer *w, const char *key, uint32_t number)
{
    struct dp_formats_bytes *value = scratch(w, 1);
    dp_formats_otlp_put_string(w, value, number);
    return dp_formats_otlp_attribute(w, key, value, 0);
}

static void put_label_value(struct writer *w, struct dp_formats_bytes *to, const struct dp_model_label *label)
{
    if (label->str)
        dp_formats_otlp_put_string(w, to, label->str);
    else
        put_any_int(to, label->num);
}

uint32_t dp_formats_otlp_label_attribute(struct writer *w, const uint32_t *labels, uint32_t n_labels, uint32_t i)
{
    const struct dp_model *m = w->p->model;
    const struct dp_model_label *label = &m->labels.at[labels[i]];
    uint32_t n_same = 0;
    for (uint32_t k = 0; k < n_labels; k++)
        if (m->labels.at[labels[k]].key == label->key && n_same++ == 0 && k < i)
            return 0;
    struct dp_formats_bytes *value = scratch(w, 1), array = {0};
    for (uint32_t k = i; k < n_labels && n_same > 1; k++)
        if (m->labels.at[labels[k]].key == label->key) {
            dp_vec_clear(value);
            put_label_value(w, value, &m->labels.at[labels[k]]);
            put_message(&array, ARRAY_VALUES, value);
        }
    dp_vec_clear(value);
    if (n_same > 1)
        put_message(value, ANY_ARRAY, &array);
    else
        put_label_value(w, value, label);
    dp_vec_fini(&array);
    /* An array has one unit. If its values have different units, it has none. */
    bool is_one = true;
    for (uint32_t k = i; k < n_labels; k++) {
        const struct dp_model_label *other = &m->labels.at[labels[k]];
        is_one &= other->key != label->key || other->num_unit == label->num_unit;
    }
    uint32_t unit = is_one && label->num_unit ? dp_formats_otlp_string(w, label->num_unit) : 0;
    return dp_formats_otlp_attribute(w, dp_model_text(m, label->key), value, unit);
}

/* ---- places ----------------------------------------------------------------------------------------------------- */

uint32_t dp_formats_otlp_mapping(struct writer *w, uint32_t number)
{
    static const char *const facts[] = OTLP_MAPPING_FACTS;
    const struct dp_model_mapping *m = &w->p->model->mappings.at[number];
    const bool known[] = {m->has_functions, m->has_filenames, m->has_line_numbers, m->has_inline_frames};
    struct dp_formats_bytes attributes = {0}, message = {0};
    if (m->build_id)
        put_varint(&attributes, dp_formats_otlp_string_attribute(w, OTLP_BUILD_ID, m->build_id));
    for (int i = 0; i < 4; i++)
        if (known[i]) {
            struct dp_formats_bytes *value = scratch(w, 1);
            put_number(value, ANY_BOOL, 1);
            put_varint(&attributes, dp_formats_otlp_attribute(w, facts[i], value, 0));
        }
    put_number(&message, MAPPING_START, m->start);
    put_number(&message, MAPPING_LIMIT, m->limit);
    put_number(&message, MAPPING_OFFSET, m->offset);
    put_number(&message, MAPPING_FILE, dp_formats_otlp_string(w, m->file));
    if (attributes.n)
        put_message(&message, MAPPING_ATTRIBUTES, &attributes);
    uint32_t index = dp_formats_otlp_entry(w, DICTIONARY_MAPPINGS, &message);
    dp_vec_fini(&attributes);
    dp_vec_fini(&message);
    return index;
}

static uint32_t function(struct writer *w, uint32_t number)
{
    const struct dp_model_function *f = &w->p->model->functions.at[number];
    struct dp_formats_bytes *to = scratch(w, 0);
    put_number(to, FUNCTION_NAME, dp_formats_otlp_string(w, f->name));
    put_number(to, FUNCTION_SYSTEM_NAME, dp_formats_otlp_string(w, f->system_name));
    put_number(to, FUNCTION_FILE, dp_formats_otlp_string(w, f->file));
    put_number(to, FUNCTION_START_LINE, (uint64_t)f->start_line);
    return dp_formats_otlp_entry(w, DICTIONARY_FUNCTIONS, to);
}

static uint32_t location(struct writer *w, uint32_t number)
{
    const struct dp_model *m = w->p->model;
    const struct dp_model_location *l = &m->locations.at[number];
    if (w->locations.at[number])
        return w->locations.at[number] - 1;
    struct dp_formats_bytes message = {0};
    put_number(&message, LOCATION_MAPPING, l->mapping ? dp_formats_otlp_mapping(w, l->mapping - 1) : 0);
    put_number(&message, LOCATION_ADDRESS, l->address);
    for (uint32_t i = 0; i < l->n_lines; i++) {
        const struct dp_model_line *line = &m->lines.at[l->first_line + i];
        uint32_t index = line->function ? function(w, line->function - 1) : 0;
        struct dp_formats_bytes *to = scratch(w, 0);
        put_number(to, LINE_FUNCTION, index);
        put_number(to, LINE_LINE, (uint64_t)line->line);
        put_number(to, LINE_COLUMN, (uint64_t)line->column);
        put_message(&message, LOCATION_LINES, to);
    }
    uint32_t index = dp_formats_otlp_entry(w, DICTIONARY_LOCATIONS, &message);
    dp_vec_fini(&message);
    w->locations.at[number] = index + 1;
    return index;
}

uint32_t dp_formats_otlp_stack(struct writer *w, uint32_t row)
{
    const struct dp_model *m = w->p->model;
    struct dp_formats_bytes *ids = scratch(w, 2), *to = scratch(w, 3);
    for (uint32_t i = 0; i < dp_model_depth(m, row); i++)
        put_varint(ids, location(w, dp_model_stack(m, row)[i]));
    if (ids->n)
        put_message(to, STACK_LOCATIONS, ids);
    return dp_formats_otlp_entry(w, DICTIONARY_STACKS, to);
}
