/* SPDX-License-Identifier: MIT */
/*
 * tool/formats/otlp_write.c - writes rows of a model as OTLP profiles: one Profile for each sample type, all with the
 * same samples in the same order, over one dictionary (otlp_dictionary.c).
 *
 * If each row has the label end_timestamp_ns, the rows are events: those with the same stack and other labels become
 * one Sample with a value and a timestamp for each. An event is only in the Profiles of types of which it has a value:
 * an allocation has no delay, and nine bytes for each zero would be most of the file.
 */
#include "tool/formats/otlp_writer.h"

#include <deltaprof/deltaprof.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- samples ---------------------------------------------------------------------------------------------------- */

/* The label end_timestamp_ns of a row; NULL: it has none. */
static const struct dp_model_label *timestamp(const struct dp_model *m, uint32_t row)
{
    for (uint32_t i = 0; i < dp_model_n_labels(m, row); i++) {
        const struct dp_model_label *label = &m->labels.at[dp_model_labels(m, row)[i]];
        if (!label->str && label->num > 0 && !strcmp(dp_model_text(m, label->key), OTLP_TIMESTAMP))
            return label;
    }
    return NULL;
}

static const char *label_text(const struct dp_model *m, uint32_t row, const char *key)
{
    for (uint32_t i = 0; i < dp_model_n_labels(m, row); i++) {
        const struct dp_model_label *label = &m->labels.at[dp_model_labels(m, row)[i]];
        if (label->str && !strcmp(dp_model_text(m, label->key), key))
            return dp_model_text(m, label->str);
    }
    return NULL;
}

/* Appends the bytes that n_bytes pairs of hex digits stand for. False: the text is something else. */
static bool put_hex(struct dp_formats_bytes *to, unsigned field, const char *hex, size_t n_bytes)
{
    uint8_t bytes[16];
    for (size_t i = 0; hex && i < 2 * n_bytes; i++) {
        const char *digit = hex[i] ? strchr("0123456789abcdef", hex[i]) : NULL;
        if (!digit)
            return false;
        uint8_t value = (uint8_t)(digit - "0123456789abcdef");
        bytes[i / 2] = i % 2 ? (uint8_t)(bytes[i / 2] | value) : (uint8_t)(value << 4);
    }
    if (!hex || hex[2 * n_bytes])
        return false;
    put_chunk(to, field, bytes, n_bytes);
    return true;
}

/* The link of a row with the labels trace_id and span_id; 0: it has none. */
static uint32_t link_of(struct writer *w, uint32_t row)
{
    const struct dp_model *m = w->p->model;
    struct dp_formats_bytes *to = scratch(w, 0);
    const char *trace = label_text(m, row, OTLP_TRACE), *span = label_text(m, row, OTLP_SPAN);
    return put_hex(to, LINK_TRACE, trace, 16) && put_hex(to, LINK_SPAN, span, 8)
               ? dp_formats_otlp_entry(w, DICTIONARY_LINKS, to)
               : 0;
}

static bool is_of_link(const struct dp_model *m, const struct dp_model_label *label)
{
    const char *key = dp_model_text(m, label->key);
    return !strcmp(key, OTLP_TRACE) || !strcmp(key, OTLP_SPAN);
}

static int add_row(struct writer *w, uint32_t row)
{
    const struct dp_model *m = w->p->model;
    const struct dp_model_label *time = w->are_events ? timestamp(m, row) : NULL;
    struct row *to = dp_vec_push(&w->rows);
    uint32_t index = dp_formats_otlp_stack(w, row), link = link_of(w, row);
    struct dp_formats_bytes sample = {0}, *attributes = scratch(w, 2);
    for (uint32_t i = 0; i < dp_model_n_labels(m, row); i++) {
        const struct dp_model_label *label = &m->labels.at[dp_model_labels(m, row)[i]];
        bool is_elsewhere = label == time || (link && is_of_link(m, label));
        uint32_t known =
            is_elsewhere ? 0
                         : dp_formats_otlp_label_attribute(w, dp_model_labels(m, row), dp_model_n_labels(m, row), i);
        if (known)
            put_varint(attributes, known);
    }
    put_number(&sample, SAMPLE_STACK, index);
    if (attributes->n)
        put_message(&sample, SAMPLE_ATTRIBUTES, attributes);
    put_number(&sample, SAMPLE_LINK, link);
    uint32_t number = dp_strings_add(&w->samples, (const char *)sample.at, sample.n);
    bool failed = !to || sample.failed || number == DP_STRINGS_NONE;
    dp_vec_fini(&sample);
    if (failed)
        return -ENOMEM;
    *to = (struct row){number, row, time ? (uint64_t)time->num : 0};
    return 0;
}

static int by_sample(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->sample != y->sample)
        return x->sample < y->sample ? -1 : 1;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static int add_rows(struct writer *w)
{
    const struct dp_formats_profile *p = w->p;
    if (p->model->main_mapping)
        dp_formats_otlp_mapping(w, p->model->main_mapping - 1); /* the first one is the program's */
    w->are_events = p->n_rows > 0;
    for (size_t i = 0; i < p->n_rows && w->are_events; i++)
        w->are_events = timestamp(p->model, p->rows[i]) != NULL;
    for (size_t i = 0; i < p->n_rows; i++)
        if (add_row(w, p->rows[i]))
            return -ENOMEM;
    qsort(w->rows.at, w->rows.n, sizeof *w->rows.at, by_sample);
    return 0;
}

/* Writes the sample of w->rows.at[first .. end). */
static void put_sample(struct writer *w, struct dp_formats_bytes *to, size_t first, size_t end, uint32_t type)
{
    const struct dp_formats_profile *p = w->p;
    size_t n_types = p->model->types.n;
    uint32_t number = w->rows.at[first].sample;
    struct dp_formats_bytes *values = scratch(w, 0), *times = scratch(w, 1), *sample = scratch(w, 2);
    int64_t sum = 0;
    put_raw(sample, dp_strings_at(&w->samples, number), dp_strings_size(&w->samples, number));
    for (size_t i = first; i < end; i++) {
        int64_t value = p->values[w->rows.at[i].row * n_types + p->first_type + type];
        uint64_t time_ns = htole64(w->rows.at[i].time_ns);
        sum += value;
        if (w->are_events && value) {
            put_varint(values, (uint64_t)value);
            put_raw(times, &time_ns, sizeof time_ns);
        }
    }
    if (w->are_events && !times->n)
        return;
    if (!w->are_events)
        put_varint(values, (uint64_t)sum);
    put_message(sample, SAMPLE_VALUES, values);
    if (times->n)
        put_message(sample, SAMPLE_TIMESTAMPS, times);
    put_message(to, PROFILE_SAMPLES, sample);
}

/* ---- the profile ------------------------------------------------------------------------------------------------ */

static void put_type(struct writer *w, struct dp_formats_bytes *to, unsigned field, struct dp_model_type type)
{
    struct dp_formats_bytes *message = scratch(w, 0);
    put_number(message, VALUE_TYPE_TYPE, dp_formats_otlp_string(w, type.type));
    put_number(message, VALUE_TYPE_UNIT, dp_formats_otlp_string(w, type.unit));
    put_message(to, field, message);
}

static void put_comments(struct writer *w, struct dp_formats_bytes *ids)
{
    const struct dp_model_header *h = w->p->header;
    struct dp_formats_bytes array = {0};
    for (size_t i = 0; i < h->comments.n; i++) {
        struct dp_formats_bytes *value = scratch(w, 1);
        dp_formats_otlp_put_string(w, value, h->comments.at[i]);
        put_message(&array, ARRAY_VALUES, value);
    }
    if (array.n) {
        struct dp_formats_bytes *value = scratch(w, 1);
        put_message(value, ANY_ARRAY, &array);
        put_varint(ids, dp_formats_otlp_attribute(w, OTLP_COMMENT, value, 0));
    }
    dp_vec_fini(&array);
}

/* The attributes that all Profiles have. */
static void profile_attributes(struct writer *w, struct dp_formats_bytes *ids)
{
    const struct dp_model_header *h = w->p->header;
    const struct {
        const char *key;
        uint32_t string;
    } texts[] = {{OTLP_DROP_FRAMES, h->drop_frames}, {OTLP_KEEP_FRAMES, h->keep_frames}, {OTLP_DOC_URL, h->doc_url}};
    put_comments(w, ids);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].string)
            put_varint(ids, dp_formats_otlp_string_attribute(w, texts[i].key, texts[i].string));
}

static void put_profile(struct writer *w, struct dp_formats_bytes *to, uint32_t type,
                        const struct dp_formats_bytes *attributes, const uint8_t *id)
{
    const struct dp_model_header *h = w->p->header;
    struct dp_formats_bytes profile = {0};
    put_type(w, &profile, PROFILE_TYPE, w->p->model->types.at[w->p->first_type + type]);
    for (size_t i = 0, end; i < w->rows.n; i = end) {
        for (end = i + 1; end < w->rows.n && w->rows.at[end].sample == w->rows.at[i].sample;)
            end++;
        put_sample(w, &profile, i, end, type);
    }
    put_fixed64(&profile, PROFILE_TIME, (uint64_t)h->time_ns);
    put_number(&profile, PROFILE_DURATION, (uint64_t)h->duration_ns);
    if (h->has_period_type)
        put_type(w, &profile, PROFILE_PERIOD_TYPE, h->period_type);
    put_number(&profile, PROFILE_PERIOD, (uint64_t)h->period);
    if (id) {
        uint8_t own[16];
        memcpy(own, id, sizeof own);
        own[15] ^= (uint8_t)type;
        put_chunk(&profile, PROFILE_ID, own, sizeof own);
    }
    if (attributes->n)
        put_message(&profile, PROFILE_ATTRIBUTES, attributes);
    put_message(to, SCOPE_PROFILES_PROFILES, &profile);
    dp_vec_fini(&profile);
}

static void put_attribute(struct writer *w, struct dp_formats_bytes *to, unsigned field, const char *key,
                          const struct dp_formats_bytes *value)
{
    struct dp_formats_bytes *pair = scratch(w, 3);
    put_chunk(pair, KEY_VALUE_KEY, key, strlen(key));
    put_message(pair, KEY_VALUE_VALUE, value);
    put_message(to, field, pair);
}

static void put_scope(struct writer *w, struct dp_formats_bytes *to, const struct dp_formats_origin *origin)
{
    struct dp_formats_bytes scope = {0}, array = {0}, *value = scratch(w, 1);
    put_chunk(&scope, SCOPE_NAME, "deltaprof", 9);
    put_chunk(&scope, SCOPE_VERSION, DELTAPROF_VERSION, strlen(DELTAPROF_VERSION));
    if (w->p->header->default_type) {
        dp_formats_otlp_put_string(w, value, w->p->header->default_type);
        put_attribute(w, &scope, SCOPE_ATTRIBUTES, OTLP_DEFAULT, value);
    }
    if (origin->n_kind) {
        value = scratch(w, 1);
        put_chunk(value, ANY_STRING, origin->kind, origin->n_kind);
        put_attribute(w, &scope, SCOPE_ATTRIBUTES, OTLP_KIND, value);
    }
    for (uint32_t i = 0; i < w->p->n_types; i++) {
        value = scratch(w, 1);
        put_any_int(value, i);
        put_message(&array, ARRAY_VALUES, value);
    }
    value = scratch(w, 1);
    put_message(value, ANY_ARRAY, &array);
    put_attribute(w, &scope, SCOPE_ATTRIBUTES, OTLP_ORDER, value);
    put_message(to, SCOPE_PROFILES_SCOPE, &scope);
    dp_vec_fini(&scope);
    dp_vec_fini(&array);
}

static void put_resource(struct writer *w, struct dp_formats_bytes *to, const struct dp_formats_origin *origin)
{
    struct dp_formats_bytes resource = {0};
    for (size_t i = 0; i < origin->n_attributes; i++) {
        const struct dp_formats_attribute *a = &origin->attributes[i];
        struct dp_formats_bytes *value = scratch(w, 1);
        char *end;
        long long number = strtoll(a->value, &end, 10);
        if (!strcmp(a->key, "process.pid") && !*end)
            put_any_int(value, number);
        else
            put_chunk(value, ANY_STRING, a->value, strlen(a->value));
        put_attribute(w, &resource, RESOURCE_ATTRIBUTES, a->key, value);
    }
    put_message(to, RESOURCE_PROFILES_RESOURCE, &resource);
    dp_vec_fini(&resource);
}

/* Writes a field of bytes that a message has; straight to fn, because it may be large. */
static int write_message(dp_pprof_write_fn fn, void *ctx, unsigned field, const struct dp_formats_bytes *message)
{
    struct dp_formats_bytes head = {0};
    put_varint(&head, dp_wire_tag(field, DP_WIRE_BYTES));
    put_varint(&head, message->n);
    int err = head.failed || message->failed ? -ENOMEM : fn(ctx, head.at, head.n);
    dp_vec_fini(&head);
    return err ? err : message->n ? fn(ctx, message->at, message->n) : 0;
}

static void put_dictionary(struct writer *w, struct dp_formats_bytes *to)
{
    struct dp_formats_bytes empty = {0};
    for (int table = 1; table < DICTIONARY_N; table++) {
        dp_formats_otlp_entry(w, table, &empty); /* number 0, which each table must have */
        for (uint32_t i = 0; i < dp_strings_count(&w->tables[table]); i++)
            put_chunk(to, (unsigned)table, dp_strings_at(&w->tables[table], i), dp_strings_size(&w->tables[table], i));
    }
}

static void fini(struct writer *w)
{
    for (int i = 0; i < DICTIONARY_N; i++)
        dp_strings_fini(&w->tables[i]);
    dp_strings_fini(&w->samples);
    dp_vec_fini(&w->locations);
    dp_vec_fini(&w->rows);
    for (size_t i = 0; i < sizeof w->scratch / sizeof *w->scratch; i++)
        dp_vec_fini(&w->scratch[i]);
}

int dp_formats_write_otlp(const struct dp_formats_profile *p, const struct dp_formats_origin *origin,
                          dp_pprof_write_fn fn, void *ctx)
{
    struct writer w = {.p = p};
    struct dp_formats_bytes resource = {0}, scope = {0}, dictionary = {0}, attributes = {0};
    int err = -ENOMEM;
    if (dp_vec_room(&w.locations, p->model->locations.n + 1) && !add_rows(&w)) {
        profile_attributes(&w, &attributes);
        put_scope(&w, &scope, origin);
        for (uint32_t type = 0; type < p->n_types; type++)
            put_profile(&w, &scope, type, &attributes, origin->id);
        put_resource(&w, &resource, origin);
        put_message(&resource, RESOURCE_PROFILES_SCOPE_PROFILES, &scope);
        put_dictionary(&w, &dictionary);
        err = w.failed || attributes.failed ? -ENOMEM : write_message(fn, ctx, REQUEST_RESOURCE_PROFILES, &resource);
        err = err ? err : write_message(fn, ctx, REQUEST_DICTIONARY, &dictionary);
    }
    fini(&w);
    dp_vec_fini(&resource);
    dp_vec_fini(&scope);
    dp_vec_fini(&dictionary);
    dp_vec_fini(&attributes);
    return err;
}
