/* SPDX-License-Identifier: MIT */
/*
 * formats/otlp_pprof.c - writes the rows that were read from OTLP as pprof: with the functions and locations that the
 * rows use, and all mappings.
 */
#include "formats/otlp_rows.h"

#include "pprof/decode.h"
#include "pprof/encode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* An attribute of the dictionary. */
struct attribute {
    struct span key, text, array; /* text.at, array.at: NULL if the value has another type */
    uint64_t unit;
    int64_t number;
    bool is_number, is_true;
};

/* State of one dp_otlp_rows_write. */
struct writer {
    struct reader *r;
    struct dp_encode *encode;
    DP_VEC(uint64_t) stack;
    DP_VEC(struct dp_encode_label) labels;
};

static int broken(struct writer *w, const char *what)
{
    return dp_decode_fail(w->r->error, "no OTLP profiles, or broken ones: %s", what);
}

static int64_t put_text(struct writer *w, struct span text)
{
    return dp_encode_string(w->encode, (const char *)text.at, (size_t)(text.end - text.at));
}

static int64_t put_string(struct writer *w, uint64_t index)
{
    return put_text(w, dictionary_entry(w->r, DICTIONARY_STRINGS, index));
}

static void read_any(const struct writer *w, struct span any, struct attribute *to)
{
    struct field f;
    while (next_field(&any, &f) > 0) {
        if (f.number == ANY_STRING || f.number == ANY_STRINDEX)
            to->text = f.number == ANY_STRING ? f.bytes : dictionary_entry(w->r, DICTIONARY_STRINGS, f.value);
        else if (f.number == ANY_ARRAY)
            to->array = f.bytes;
        else if (f.number == ANY_INT || f.number == ANY_BOOL) {
            to->number = (int64_t)f.value;
            to->is_number = f.number == ANY_INT;
            to->is_true = f.number == ANY_BOOL && f.value;
        }
    }
}

static struct attribute read_attribute(const struct writer *w, uint64_t index)
{
    struct span message = dictionary_entry(w->r, DICTIONARY_ATTRIBUTES, index);
    struct attribute to = {0};
    struct field f;
    while (next_field(&message, &f) > 0) {
        if (f.number == ATTRIBUTE_KEY)
            to.key = dictionary_entry(w->r, DICTIONARY_STRINGS, f.value);
        else if (f.number == ATTRIBUTE_UNIT)
            to.unit = f.value;
        else if (f.number == ATTRIBUTE_VALUE)
            read_any(w, f.bytes, &to);
    }
    return to;
}

static bool is_key(const struct attribute *a, const char *key)
{
    size_t n = strlen(key);
    return a->key.at && (size_t)(a->key.end - a->key.at) == n && !memcmp(a->key.at, key, n);
}

/* Whether the key is `key`, a dot, and more, as in KEY.NUMBER; the rest is not checked. */
static bool is_numbered_key(const struct attribute *a, const char *key)
{
    size_t n = strlen(key);
    return a->key.at && (size_t)(a->key.end - a->key.at) > n + 1 && !memcmp(a->key.at, key, n) && a->key.at[n] == '.';
}

/* ---- places ----------------------------------------------------------------------------------------------------- */

/* Returns pprof's id. A line of pprof must have a function: without one in the dictionary, one without a name. */
static uint64_t function(struct writer *w, uint64_t index)
{
    bool is_known = index && index < w->r->tables[DICTIONARY_FUNCTIONS].n;
    struct span message = dictionary_entry(w->r, DICTIONARY_FUNCTIONS, index);
    int64_t texts[4] = {0}, start_line = 0;
    struct field f;
    index = is_known ? index : 0;
    if (w->r->functions.at[index])
        return w->r->functions.at[index];
    while (is_known && next_field(&message, &f) > 0) {
        if (f.number >= FUNCTION_NAME && f.number <= FUNCTION_FILE)
            texts[f.number] = put_string(w, f.value);
        else if (f.number == FUNCTION_START_LINE)
            start_line = (int64_t)f.value;
    }
    return w->r->functions.at[index] = dp_encode_function(w->encode, texts[FUNCTION_NAME], texts[FUNCTION_SYSTEM_NAME],
                                                          texts[FUNCTION_FILE], start_line);
}

static int location(struct writer *w, uint64_t index, uint64_t *id)
{
    struct span message = dictionary_entry(w->r, DICTIONARY_LOCATIONS, index);
    struct dp_encode_line lines[256] = {{0}};
    struct field f, inner;
    uint64_t mapping = 0, address = 0;
    size_t n_lines = 0;
    int got;
    if (index >= w->r->locations.n)
        return broken(w, "a location of a stack");
    if ((*id = w->r->locations.at[index]))
        return 0;
    while ((got = next_field(&message, &f)) > 0) {
        if (f.number == LOCATION_MAPPING)
            mapping = f.value;
        else if (f.number == LOCATION_ADDRESS)
            address = f.value;
        else if (f.number == LOCATION_LINES && n_lines < sizeof lines / sizeof *lines) {
            struct dp_encode_line *to = &lines[n_lines++];
            uint64_t of = 0;
            while (next_field(&f.bytes, &inner) > 0) {
                if (inner.number == LINE_FUNCTION)
                    of = inner.value;
                else if (inner.number == LINE_LINE)
                    to->line = (int64_t)inner.value;
                else if (inner.number == LINE_COLUMN)
                    to->column = (int64_t)inner.value;
            }
            to->function = function(w, of);
        }
    }
    if (got < 0 || (mapping && mapping >= w->r->tables[DICTIONARY_MAPPINGS].n))
        return broken(w, "a location");
    *id = w->r->locations.at[index] = dp_encode_location(w->encode, mapping, address, lines, n_lines);
    return 0;
}

/* Writes all mappings, also unused ones, so that a mapping's id is its index in the dictionary. */
static void put_mappings(struct writer *w)
{
    static const char *const facts[] = OTLP_MAPPING_FACTS;
    for (size_t i = 1; i < w->r->tables[DICTIONARY_MAPPINGS].n; i++) {
        struct span message = dictionary_entry(w->r, DICTIONARY_MAPPINGS, i);
        struct dp_encode_mapping to = {0};
        bool *const known[] = {&to.has_functions, &to.has_filenames, &to.has_line_numbers, &to.has_inline_frames};
        struct field f;
        uint64_t index;
        while (next_field(&message, &f) > 0) {
            if (f.number == MAPPING_START)
                to.start = f.value;
            else if (f.number == MAPPING_LIMIT)
                to.limit = f.value;
            else if (f.number == MAPPING_OFFSET)
                to.offset = f.value;
            else if (f.number == MAPPING_FILE)
                to.file = put_string(w, f.value);
            while (f.number == MAPPING_ATTRIBUTES && next_number(&f, &index)) {
                struct attribute a = read_attribute(w, index);
                if (is_key(&a, OTLP_BUILD_ID))
                    to.build_id = put_text(w, a.text);
                for (int k = 0; k < 4; k++)
                    if (is_key(&a, facts[k]))
                        *known[k] = a.is_true;
            }
        }
        dp_encode_mapping(w->encode, &to);
    }
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static struct dp_encode_label *push_label(struct writer *w, const char *key)
{
    struct dp_encode_label *to = dp_vec_push(&w->labels);
    if (to)
        *to = (struct dp_encode_label){.key = key ? dp_encode_string(w->encode, key, strlen(key)) : 0};
    return to;
}

static int put_hex_label(struct writer *w, const char *key, struct span bytes)
{
    char hex[33] = "";
    for (int i = 0; i < 16 && bytes.at + i < bytes.end; i++)
        sprintf(hex + 2 * i, "%02x", bytes.at[i]);
    struct dp_encode_label *to = push_label(w, key);
    if (to)
        to->str = dp_encode_string(w->encode, hex, strlen(hex));
    return to ? 0 : -ENOMEM;
}

static int put_link(struct writer *w, uint64_t link)
{
    struct span message = dictionary_entry(w->r, DICTIONARY_LINKS, link);
    struct field f;
    int err = 0;
    while (link && !err && next_field(&message, &f) > 0)
        if (f.number == LINK_TRACE || f.number == LINK_SPAN)
            err = put_hex_label(w, f.number == LINK_TRACE ? OTLP_TRACE : OTLP_SPAN, f.bytes);
    return err;
}

/* Adds a label for one value of the attribute. */
static int put_value(struct writer *w, const struct attribute *a, const struct attribute *value)
{
    if (!value->text.at && !value->is_number && !value->is_true)
        return 0; /* false, or a type that pprof's labels do not have */
    struct dp_encode_label *to = push_label(w, NULL);
    if (!to)
        return -ENOMEM;
    to->key = put_text(w, a->key);
    if (value->text.at)
        to->str = put_text(w, value->text);
    else
        to->num = value->number, to->num_unit = a->unit ? put_string(w, a->unit) : 0;
    return 0;
}

static int put_label(struct writer *w, uint64_t index)
{
    struct attribute a = read_attribute(w, index);
    struct field f;
    int err = put_value(w, &a, &a);
    while (!err && next_field(&a.array, &f) > 0)
        if (f.number == ARRAY_VALUES) {
            struct attribute value = {0};
            read_any(w, f.bytes, &value);
            err = put_value(w, &a, &value);
        }
    return err;
}

static int put_row(struct writer *w, uint32_t row)
{
    struct reader *r = w->r;
    const uint8_t *at = (const uint8_t *)dp_strings_at(&r->keys, row + 1),
                  *end = at + dp_strings_size(&r->keys, row + 1);
    uint64_t stack = 0, link = 0, time_ns = 0, index, id;
    struct field f;
    int err = 0;
    at = dp_wire_get(dp_wire_get(dp_wire_get(at, end, &stack), end, &link), end, &time_ns);
    dp_vec_clear(&w->stack);
    dp_vec_clear(&w->labels);
    struct span message = dictionary_entry(w->r, DICTIONARY_STACKS, stack);
    while (!err && next_field(&message, &f) > 0)
        while (!err && f.number == STACK_LOCATIONS && next_number(&f, &index)) {
            err = location(w, index, &id);
            uint64_t *to = err ? NULL : dp_vec_push(&w->stack);
            if (to)
                *to = id;
            else if (!err)
                err = -ENOMEM;
        }
    while (!err && at && at < end && (at = dp_wire_get(at, end, &index)))
        err = put_label(w, index);
    err = err ? err : put_link(w, link);
    struct dp_encode_label *time = !err && time_ns ? push_label(w, OTLP_TIMESTAMP) : NULL;
    if (time)
        time->num = (int64_t)time_ns;
    if (!err)
        dp_encode_sample(w->encode, w->stack.at, w->stack.n, &r->values.at[row * r->types.n], w->labels.at,
                         w->labels.n);
    return err;
}

/* ---- the profile ------------------------------------------------------------------------------------------------ */

static char *copy(const struct writer *w, uint64_t string)
{
    struct span text = dictionary_entry(w->r, DICTIONARY_STRINGS, string);
    return text.at ? strndup((const char *)text.at, (size_t)(text.end - text.at)) : strdup("");
}

static int put_header(struct writer *w)
{
    struct reader *r = w->r;
    const struct profile *first = &r->profiles.at[0];
    struct dp_encode_value_type *types = calloc(r->types.n, sizeof *types);
    char **texts = calloc(2 * r->types.n + 3, sizeof *texts);
    size_t n = 0;
    if (!types || !texts) {
        free(types);
        free(texts);
        return -ENOMEM;
    }
    for (size_t i = 0; i < r->types.n; i++) {
        types[i].type = texts[n++] = copy(w, r->types.at[i].type);
        types[i].unit = texts[n++] = copy(w, r->types.at[i].unit);
    }
    texts[n++] = copy(w, first->period_type.type);
    texts[n++] = copy(w, first->period_type.unit);
    texts[n++] = r->default_type.at
                     ? strndup((const char *)r->default_type.at, (size_t)(r->default_type.end - r->default_type.at))
                     : strdup("");
    struct dp_encode_header header = {.types = types, .n_types = r->types.n, .period = first->period};
    header.time_ns = first->time_ns;
    int64_t end_ns = 0;
    for (size_t i = 0; i < r->profiles.n; i++) {
        const struct profile *p = &r->profiles.at[i];
        header.time_ns = p->time_ns < header.time_ns ? p->time_ns : header.time_ns;
        int64_t its_end_ns;
        if (!__builtin_add_overflow(p->time_ns, p->duration_ns, &its_end_ns) && its_end_ns > end_ns)
            end_ns = its_end_ns;
    }
    if (__builtin_sub_overflow(end_ns, header.time_ns, &header.duration_ns))
        header.duration_ns = 0;
    bool complete = true;
    for (size_t i = 0; i < n; i++)
        complete &= texts[i] != NULL;
    if (complete) {
        header.period_type = (struct dp_encode_value_type){texts[n - 3], texts[n - 2]};
        header.default_type = *texts[n - 1] ? texts[n - 1] : NULL;
        dp_encode_header(w->encode, &header);
    }
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
    free(types);
    free(texts);
    return complete ? 0 : -ENOMEM;
}

/* Writes the text as field number `field` of pprof's Profile. */
static void put_text_field(struct writer *w, unsigned field, struct span text)
{
    uint8_t bytes[2 * DP_WIRE_VARINT_MAX];
    uint64_t string = (uint64_t)put_text(w, text);
    dp_encode_raw(w->encode, bytes, (size_t)(dp_wire_put_nonzero(bytes, field, string) - bytes));
}

/*
 * The attribute is an array of comments, or one comment. In the second case the OpenTelemetry collector appends the
 * comment's number to the key.
 */
static void put_comments(struct writer *w, const struct attribute *a)
{
    struct span array = a->array;
    struct field f;
    if (a->text.at)
        put_text_field(w, 13, a->text);
    while (next_field(&array, &f) > 0)
        if (f.number == ARRAY_VALUES) {
            struct attribute value = {0};
            read_any(w, f.bytes, &value);
            if (value.text.at)
                put_text_field(w, 13, value.text);
        }
}

static void put_profile_attributes(struct writer *w)
{
    static const struct {
        const char *key;
        unsigned field; /* of pprof's Profile */
    } texts[] = {{OTLP_DROP_FRAMES, 7}, {OTLP_KEEP_FRAMES, 8}, {OTLP_DOC_URL, 15}};
    for (size_t i = 0; i < w->r->attributes.n; i++) {
        struct attribute a = read_attribute(w, w->r->attributes.at[i]);
        if (is_key(&a, OTLP_COMMENT) || is_numbered_key(&a, OTLP_COMMENT))
            put_comments(w, &a);
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            if (is_key(&a, texts[k].key))
                put_text_field(w, texts[k].field, a.text);
    }
}

int dp_otlp_rows_write(struct reader *r, dp_pprof_write_fn fn, void *ctx)
{
    struct writer w = {.r = r, .encode = dp_encode_new(fn, ctx)};
    size_t n_locations = r->tables[DICTIONARY_LOCATIONS].n, n_functions = r->tables[DICTIONARY_FUNCTIONS].n;
    int err = -ENOMEM;
    if (w.encode && dp_vec_room(&r->locations, n_locations + 1) && dp_vec_room(&r->functions, n_functions + 1)) {
        r->locations.n = n_locations;
        memset(r->locations.at, 0, (n_locations + 1) * sizeof *r->locations.at);
        memset(r->functions.at, 0, (n_functions + 1) * sizeof *r->functions.at);
        err = put_header(&w);
    }
    if (!err)
        put_profile_attributes(&w);
    for (uint32_t row = 0; !err && row < r->values.n / r->types.n; row++)
        if (!dp_encode_is_zero(&r->values.at[row * r->types.n], r->types.n))
            err = put_row(&w, row);
    if (!err) {
        put_mappings(&w);
        err = dp_encode_finish(w.encode);
    }
    dp_encode_free(w.encode);
    dp_vec_fini(&w.stack);
    dp_vec_fini(&w.labels);
    return err;
}
