/* SPDX-License-Identifier: MIT */
/*
 * pprof/encode.c - writes the messages of a profile. A short message, whose length takes one byte, is built in its part
 * of the output buffer, behind a place for that byte. A longer one is built in `body` and copied behind its tag and
 * length. When a message does not fit in its part, all parts are output, one behind the other.
 * Only the two sets (strings, functions), the list of functions that are in neither, and the buffer for the longest
 * message grow.
 *
 * Field numbers are profile.proto's, in the order of its messages.
 */
#include "pprof/encode_state.h"

#include "pprof/encode_utf8.h"

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
    dp_vec_clear(&e->string_indices);
    dp_vec_clear(&e->unsearched);
    e->searches_all = false;
    memset(e->searched_bits, 0, sizeof e->searched_bits);
    memset(e->unsearched_bits, 0, sizeof e->unsearched_bits);
    e->n_strings = 0;
    e->n_functions = e->n_locations = e->n_mappings = 0;
    empty(e);
}

size_t dp_encode_bytes(const struct dp_encode *e)
{
    return e ? sizeof *e + dp_strings_bytes(&e->strings) + dp_index_bytes(&e->function_index) +
                   e->functions.cap * sizeof *e->functions.at + e->string_indices.cap * sizeof *e->string_indices.at +
                   e->unsearched.cap * sizeof *e->unsearched.at + e->body.cap
             : 0;
}

void dp_encode_free(struct dp_encode *e)
{
    if (!e)
        return;
    dp_strings_fini(&e->strings);
    dp_vec_fini(&e->string_indices);
    dp_vec_fini(&e->unsearched);
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

void dp_encode_extra(struct dp_encode *e, struct dp_encode_extra extra)
{
    e->extra = extra;
}

/* Writes a string; returns its index. The table's first one, "", comes before any other. */
static int64_t write_string(struct dp_encode *e, const char *text, size_t n_bytes)
{
    dp_encode_message(e, DP_ENCODE_REST, PROFILE_STRING, text, n_bytes);
    return e->n_strings++;
}

/* There is room for the indices of the strings that one call may add to the set. */
static bool has_room(struct dp_encode *e)
{
    if (!e->err && !dp_vec_room(&e->string_indices, 2))
        dp_encode_set_full(e);
    return !e->err;
}

#define NOT_WRITTEN UINT32_MAX

/* The index of a string of the set; it is written if it is new, behind "" if that is. */
static int64_t written(struct dp_encode *e, uint32_t number, const char *text, size_t n_bytes, uint32_t hash)
{
    if (number == DP_STRINGS_NONE) {
        dp_encode_set_full(e);
        return 0;
    }
    if (number < e->string_indices.n)
        return e->string_indices.at[number];
    if (!e->string_indices.n)
        e->string_indices.at[e->string_indices.n++] = (uint32_t)write_string(e, "", 0);
    if (!number)
        return 0;
    e->string_indices.at[e->string_indices.n++] = NOT_WRITTEN;
    dp_encode_set_bit(e->searched_bits, DP_ENCODE_SEARCHED_BITS, hash);
    if (e->unsearched.n && dp_encode_has_bit(e->unsearched_bits, DP_ENCODE_UNSEARCHED_BITS, hash))
        dp_encode_search_all(e);
    if (e->string_indices.at[number] == NOT_WRITTEN)
        e->string_indices.at[number] = (uint32_t)write_string(e, text, n_bytes);
    return e->string_indices.at[number];
}

int64_t dp_encode_string_hashed(struct dp_encode *e, const char *text, size_t n_bytes, uint32_t hash)
{
    if (!has_room(e))
        return 0;
    return written(e, dp_strings_add_hashed(&e->strings, text, n_bytes, hash), text, n_bytes, hash);
}

int64_t dp_encode_string(struct dp_encode *e, const char *text, size_t n_bytes)
{
    if (!has_room(e))
        return 0;
    if (!text)
        return dp_encode_string_hashed(e, "", 0, dp_strings_hash("", 0));
    if (dp_encode_utf8_prefix(text, n_bytes) < n_bytes) {
        char *clean = (char *)dp_vec_room(&e->body, 3 * n_bytes);
        if (!clean) {
            dp_encode_set_full(e);
            return 0;
        }
        n_bytes = dp_encode_utf8_replace(clean, text, n_bytes);
        text = clean;
    }
    return dp_encode_string_hashed(e, text, n_bytes, dp_strings_hash(text, n_bytes));
}

static int64_t string(struct dp_encode *e, const char *text)
{
    return dp_encode_string(e, text, text ? strlen(text) : 0);
}

static void put_value_type(struct dp_encode *e, unsigned field, const struct dp_encode_value_type *type)
{
    int64_t name = string(e, type->type), unit = string(e, type->unit);
    uint8_t *at = dp_encode_open(e, DP_ENCODE_REST, 2 * DP_ENCODE_FIELD_MAX);
    if (at)
        dp_encode_close(e, DP_ENCODE_REST, field,
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

bool dp_encode_clear_no_memory(struct dp_encode *e)
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

int dp_encode_finish_by(struct dp_encode *e, dp_pprof_write_fn last)
{
    string(e, NULL); /* the table holds at least "" */
    e->fn = last;
    dp_encode_flush(e);
    return e->err;
}

int dp_encode_finish(struct dp_encode *e)
{
    return dp_encode_finish_by(e, e->fn);
}
