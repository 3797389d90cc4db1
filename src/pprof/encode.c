/* SPDX-License-Identifier: MIT */
/*
 * pprof/encode.c - writes the messages of a profile. A short message, whose length takes one byte, is built in its part
 * of the output buffer, behind a place for that byte. A longer one is built in `body` and copied behind its tag and
 * length. When a message does not fit in its part, all parts are output, one behind the other.
 * Only the two sets (strings, functions) and the buffer for the longest message grow.
 *
 * Field numbers are profile.proto's, in the order of its messages.
 */
#include "pprof/encode_state.h"

#include "base/hash.h"
#include "pprof/encode_utf8.h"

#define SHORT     127                      /* bytes of the longest message whose length takes one byte */
#define FIELD_MAX (1 + DP_WIRE_VARINT_MAX) /* with a tag of one byte */

static void empty(struct dp_encode *e)
{
    for (enum dp_encode_part part = 0; part < DP_ENCODE_PARTS; part++)
        e->ends[part] = e->out + dp_encode_limit(part);
}

struct dp_encode *dp_encode_new(dp_pprof_write_fn fn, void *ctx)
{
    struct dp_encode *e = dp_mem_map(sizeof *e);
    if (e)
        dp_encode_reset(e, fn, ctx);
    return e;
}

void dp_encode_reset(struct dp_encode *e, dp_pprof_write_fn fn, void *ctx)
{
    e->fn = fn;
    e->ctx = ctx;
    e->err = 0;
    e->full = false;
    e->extra = (struct dp_encode_extra){0};
    dp_strings_clear(&e->strings);
    dp_vec_clear(&e->functions);
    dp_index_clear(&e->function_index);
    e->n_locations = e->n_mappings = 0;
    empty(e);
}

size_t dp_encode_bytes(const struct dp_encode *e)
{
    return e ? sizeof *e + dp_strings_bytes(&e->strings) + dp_index_bytes(&e->function_index) +
                   e->functions.cap * sizeof *e->functions.at + e->body.cap
             : 0;
}

void dp_encode_free(struct dp_encode *e)
{
    if (!e)
        return;
    dp_strings_fini(&e->strings);
    dp_vec_fini(&e->functions);
    dp_vec_fini(&e->body);
    dp_index_fini(&e->function_index);
    dp_mem_unmap(e, sizeof *e);
}

static void output(struct dp_encode *e, const void *bytes, size_t n_bytes)
{
    if (!e->err && n_bytes)
        e->err = e->fn(e->ctx, bytes, n_bytes);
}

void dp_encode_flush(struct dp_encode *e)
{
    uint8_t *end = e->ends[0];
    for (enum dp_encode_part part = 1; part < DP_ENCODE_PARTS; part++) { /* one large piece is better for gzip */
        const uint8_t *start = e->out + dp_encode_limit(part);
        size_t n_bytes = (size_t)(e->ends[part] - start);
        memmove(end, start, n_bytes);
        end += n_bytes;
    }
    output(e, e->out, (size_t)(end - e->out));
    empty(e);
}

void dp_encode_raw(struct dp_encode *e, const void *bytes, size_t n_bytes)
{
    if (n_bytes > dp_encode_left(e, DP_ENCODE_REST))
        dp_encode_flush(e);
    if (n_bytes > DP_ENCODE_REST_BYTES) {
        output(e, bytes, n_bytes);
        return;
    }
    if (n_bytes) /* memcpy must not get NULL, not even with 0 bytes */
        memcpy(e->ends[DP_ENCODE_REST], bytes, n_bytes);
    e->ends[DP_ENCODE_REST] += n_bytes;
}

void dp_encode_message(struct dp_encode *e, enum dp_encode_part part, unsigned field, const void *bytes, size_t n_bytes)
{
    size_t n_most = n_bytes + 2 * DP_WIRE_VARINT_MAX;
    if (n_most > dp_encode_left(e, part))
        dp_encode_flush(e);
    uint8_t *head = e->ends[part], *at = dp_wire_put(dp_wire_put(head, dp_wire_tag(field, DP_WIRE_BYTES)), n_bytes);
    if (n_most > dp_encode_left(e, part)) {
        output(e, head, (size_t)(at - head));
        output(e, bytes, n_bytes);
        return;
    }
    memcpy(at, bytes, n_bytes);
    e->ends[part] = at + n_bytes;
}

static void put_number(struct dp_encode *e, unsigned field, uint64_t value)
{
    uint8_t bytes[2 * DP_WIRE_VARINT_MAX];
    dp_encode_raw(e, bytes, (size_t)(dp_wire_put_nonzero(bytes, field, value) - bytes));
}

uint8_t *dp_encode_begin(struct dp_encode *e, size_t n_bytes)
{
    if (e->err)
        return NULL;
    if (!dp_vec_room(&e->body, n_bytes + e->extra.n_bytes)) {
        dp_encode_set_full(e);
        return NULL;
    }
    return e->body.at;
}

/* Begins a message of at most n_bytes and its extra fields. NULL: out of memory, or an earlier error. */
static uint8_t *begin(struct dp_encode *e, enum dp_encode_part part, size_t n_bytes)
{
    e->in_place = n_bytes + e->extra.n_bytes <= SHORT;
    if (!e->in_place)
        return dp_encode_begin(e, n_bytes);
    if (2 + SHORT > dp_encode_left(e, part))
        dp_encode_flush(e);
    return e->err ? NULL : e->ends[part] + 2;
}

static void end(struct dp_encode *e, enum dp_encode_part part, unsigned field, uint8_t *at)
{
    at = put_extra(at, &e->extra);
    e->extra = (struct dp_encode_extra){0};
    if (!e->in_place) {
        dp_encode_message(e, part, field, e->body.at, (size_t)(at - e->body.at));
        return;
    }
    uint8_t *head = e->ends[part];
    head[0] = (uint8_t)dp_wire_tag(field, DP_WIRE_BYTES);
    head[1] = (uint8_t)(at - head - 2);
    e->ends[part] = at;
}

void dp_encode_extra(struct dp_encode *e, struct dp_encode_extra extra)
{
    e->extra = extra;
}

/* Writes the string if it is new to the set, which had n_before. The table's first one, "", comes before any other. */
static int64_t written(struct dp_encode *e, size_t n_before, uint32_t number, const char *text, size_t n_bytes)
{
    if (number == DP_STRINGS_NONE) {
        dp_encode_set_full(e);
        return 0;
    }
    if (!n_before)
        dp_encode_message(e, DP_ENCODE_REST, PROFILE_STRING, "", 0);
    if (number && number >= n_before)
        dp_encode_message(e, DP_ENCODE_REST, PROFILE_STRING, text, n_bytes);
    return number;
}

int64_t dp_encode_string_hashed(struct dp_encode *e, const char *text, size_t n_bytes, uint32_t hash)
{
    size_t n_before = dp_strings_count(&e->strings);
    return e->err ? 0 : written(e, n_before, dp_strings_add_hashed(&e->strings, text, n_bytes, hash), text, n_bytes);
}

int64_t dp_encode_string(struct dp_encode *e, const char *text, size_t n_bytes)
{
    if (e->err)
        return 0;
    size_t n_before = dp_strings_count(&e->strings);
    if (text && dp_encode_utf8_prefix(text, n_bytes) < n_bytes) {
        char *clean = (char *)dp_vec_room(&e->body, 3 * n_bytes);
        if (!clean) {
            dp_encode_set_full(e);
            return 0;
        }
        n_bytes = dp_encode_utf8_replace(clean, text, n_bytes);
        text = clean;
    }
    n_bytes = text ? n_bytes : 0;
    return written(e, n_before, dp_strings_add(&e->strings, text, n_bytes), text, n_bytes);
}

static int64_t string(struct dp_encode *e, const char *text)
{
    return dp_encode_string(e, text, text ? strlen(text) : 0);
}

static void put_value_type(struct dp_encode *e, unsigned field, const struct dp_encode_value_type *type)
{
    int64_t name = string(e, type->type), unit = string(e, type->unit);
    uint8_t *at = begin(e, DP_ENCODE_REST, 2 * FIELD_MAX);
    if (at)
        end(e, DP_ENCODE_REST, field,
            dp_wire_put_nonzero(dp_wire_put_nonzero(at, 1, (uint64_t)name), 2, (uint64_t)unit));
}

void dp_encode_header(struct dp_encode *e, const struct dp_encode_header *header)
{
    e->n_types = header->n_types;
    for (size_t i = 0; i < header->n_types; i++)
        put_value_type(e, PROFILE_SAMPLE_TYPE, &header->types[i]);
    if (header->period_type.type)
        put_value_type(e, PROFILE_PERIOD_TYPE, &header->period_type);
    put_number(e, PROFILE_PERIOD, (uint64_t)header->period);
    put_number(e, PROFILE_TIME_NANOS, (uint64_t)header->time_ns);
    put_number(e, PROFILE_DURATION_NANOS, (uint64_t)header->duration_ns);
    put_number(e, PROFILE_DEFAULT_TYPE, (uint64_t)string(e, header->default_type));
}

void dp_encode_comment(struct dp_encode *e, const char *text)
{
    put_number(e, PROFILE_COMMENT, (uint64_t)string(e, text));
}

static bool is(const struct dp_encode_function *f, int64_t name, int64_t system_name, int64_t file, int64_t start_line)
{
    return f->name == name && f->system_name == system_name && f->file == file && f->start_line == start_line;
}

uint64_t dp_encode_function(struct dp_encode *e, int64_t name, int64_t system_name, int64_t file, int64_t start_line)
{
    uint64_t hash = dp_index_hash(dp_index_seed(), (uint64_t)name << 32 ^ (uint64_t)system_name);
    hash = dp_index_hash(dp_index_hash(hash, (uint64_t)file), (uint64_t)start_line);
    struct dp_index_probe probe = dp_index_probe(&e->function_index, hash);
    uint32_t number;
    while ((number = dp_index_candidate(&e->function_index, &probe)) != DP_INDEX_NONE)
        if (is(&e->functions.at[number], name, system_name, file, start_line))
            break;
    if (number != DP_INDEX_NONE) {
        e->extra = (struct dp_encode_extra){0};
        return number + 1;
    }
    uint8_t *at = begin(e, DP_ENCODE_FUNCTIONS, 5 * FIELD_MAX);
    if (!at)
        return 0;
    if (!dp_vec_room(&e->functions, 1) || (number = dp_index_add(&e->function_index, &probe)) == DP_INDEX_NONE) {
        dp_encode_set_full(e);
        return 0;
    }
    struct dp_encode_function *f = &e->functions.at[e->functions.n++];
    f->name = name; /* one by one: a copied struct is read in larger pieces than it was written, which waits */
    f->system_name = system_name;
    f->file = file;
    f->start_line = start_line;
    at = dp_wire_put_field(at, 1, number + 1);
    at = dp_wire_put_nonzero(at, 2, (uint64_t)name);
    at = dp_wire_put_nonzero(at, 3, (uint64_t)system_name);
    at = dp_wire_put_nonzero(at, 4, (uint64_t)file);
    end(e, DP_ENCODE_FUNCTIONS, PROFILE_FUNCTION, dp_wire_put_nonzero(at, 5, (uint64_t)start_line));
    return number + 1;
}

uint64_t dp_encode_location(struct dp_encode *e, uint64_t mapping, uint64_t address, const struct dp_encode_line *lines,
                            size_t n_lines)
{
    size_t n_bytes = 3 * FIELD_MAX;
    for (size_t i = 0; i < n_lines; i++)
        n_bytes += 4 * FIELD_MAX + lines[i].extra.n_bytes;
    uint64_t id = e->n_locations + 1;
    uint8_t *at = begin(e, DP_ENCODE_LOCATIONS, n_bytes);
    if (!at)
        return id;
    e->n_locations = id;
    at = dp_wire_put_field(at, 1, id);
    at = dp_wire_put_nonzero(at, 2, mapping);
    at = dp_wire_put_nonzero(at, 3, address);
    for (size_t i = 0; i < n_lines; i++) {
        uint8_t head[3 * FIELD_MAX];
        uint8_t *stop = dp_wire_put_nonzero(head, 1, lines[i].function);
        stop = dp_wire_put_nonzero(stop, 2, (uint64_t)lines[i].line);
        stop = dp_wire_put_nonzero(stop, 3, (uint64_t)lines[i].column);
        size_t n_head = (size_t)(stop - head);
        at = dp_wire_put(dp_wire_put(at, dp_wire_tag(4, DP_WIRE_BYTES)), n_head + lines[i].extra.n_bytes);
        memcpy(at, head, n_head);
        at = put_extra(at + n_head, &lines[i].extra);
    }
    end(e, DP_ENCODE_LOCATIONS, PROFILE_LOCATION, at);
    return id;
}

uint64_t dp_encode_locations(const struct dp_encode *e)
{
    return e->n_locations;
}

uint64_t dp_encode_mapping(struct dp_encode *e, const struct dp_encode_mapping *mapping)
{
    uint64_t id = ++e->n_mappings;
    uint8_t *at = begin(e, DP_ENCODE_REST, 10 * FIELD_MAX);
    if (!at)
        return id;
    at = dp_wire_put_field(at, 1, id);
    at = dp_wire_put_nonzero(at, 2, mapping->start);
    at = dp_wire_put_nonzero(at, 3, mapping->limit);
    at = dp_wire_put_nonzero(at, 4, mapping->offset);
    at = dp_wire_put_nonzero(at, 5, (uint64_t)mapping->file);
    at = dp_wire_put_nonzero(at, 6, (uint64_t)mapping->build_id);
    at = dp_wire_put_nonzero(at, 7, mapping->has_functions != 0);
    at = dp_wire_put_nonzero(at, 8, mapping->has_filenames != 0);
    at = dp_wire_put_nonzero(at, 9, mapping->has_line_numbers != 0);
    end(e, DP_ENCODE_REST, PROFILE_MAPPING, dp_wire_put_nonzero(at, 10, mapping->has_inline_frames != 0));
    return id;
}

bool dp_encode_forgive(struct dp_encode *e)
{
    if (!e->full)
        return false;
    e->err = 0;
    e->full = false;
    e->extra = (struct dp_encode_extra){0};
    return true;
}

int dp_encode_error(const struct dp_encode *e)
{
    return e->err;
}

int dp_encode_finish(struct dp_encode *e)
{
    string(e, NULL); /* the table holds at least "" */
    dp_encode_flush(e);
    return e->err;
}
