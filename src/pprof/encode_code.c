/* SPDX-License-Identifier: MIT */
/*
 * pprof/encode_code.c - writes functions, locations and mappings. Nearly all bytes of a small delta are functions with
 * a name and locations with one line; these have calls of their own, which search nothing and branch little.
 */
#include "base/hash.h"
#include "pprof/encode_state.h"

/* A field that is mostly a small number, and not 0. */
static inline uint8_t *put_id_field(uint8_t *at, unsigned field, uint64_t value)
{
    *at = (uint8_t)dp_wire_tag(field, DP_WIRE_VARINT);
    return dp_wire_put_id(at + 1, value);
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
        return e->functions.at[number].id;
    }
    uint8_t *at = dp_encode_open(e, DP_ENCODE_FUNCTIONS, 5 * DP_ENCODE_FIELD_MAX);
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
    f->id = ++e->n_functions;
    at = dp_wire_put_field(at, 1, e->n_functions);
    at = dp_wire_put_nonzero(at, 2, (uint64_t)name);
    at = dp_wire_put_nonzero(at, 3, (uint64_t)system_name);
    at = dp_wire_put_nonzero(at, 4, (uint64_t)file);
    dp_encode_close(e, DP_ENCODE_FUNCTIONS, PROFILE_FUNCTION, dp_wire_put_nonzero(at, 5, (uint64_t)start_line));
    return e->n_functions;
}

uint64_t dp_encode_function_new(struct dp_encode *e, const char *name, size_t n_bytes)
{
    int64_t index = dp_encode_string_new(e, name, n_bytes);
    uint8_t *at = dp_encode_open(e, DP_ENCODE_FUNCTIONS, 3 * DP_ENCODE_FIELD_MAX);
    if (!at)
        return 0;
    at = put_id_field(at, 1, ++e->n_functions);
    at = put_id_field(at, 2, (uint64_t)index);
    dp_encode_close(e, DP_ENCODE_FUNCTIONS, PROFILE_FUNCTION, put_id_field(at, 3, (uint64_t)index));
    return e->n_functions;
}

/* Whether one line, with a function and nothing unusual, is all: then the message is short. */
static inline bool is_usual(const struct dp_encode_line *lines, size_t n_lines)
{
    return n_lines == 1 && lines->function && !lines->column && !lines->extra.n_bytes;
}

/* All that dp_encode_location does for usual locations, with few branches. */
static uint64_t usual_location(struct dp_encode *e, uint64_t mapping, uint64_t address, uint64_t function,
                               uint64_t line)
{
    size_t n_line = 1 + dp_wire_size(function) + (line ? 1 + dp_wire_size(line) : 0);
    uint8_t *at = dp_encode_open(e, DP_ENCODE_LOCATIONS, 6 * DP_ENCODE_FIELD_MAX);
    if (!at)
        return e->n_locations + 1;
    at = put_id_field(at, 1, ++e->n_locations);
    at = put_id_field(at, 2, mapping);
    *at++ = dp_wire_tag(3, DP_WIRE_VARINT);
    at = dp_wire_put_address(at, address);
    *at++ = dp_wire_tag(4, DP_WIRE_BYTES);
    *at++ = (uint8_t)n_line;
    at = put_id_field(at, 1, function);
    dp_encode_close(e, DP_ENCODE_LOCATIONS, PROFILE_LOCATION, line ? put_id_field(at, 2, line) : at);
    return e->n_locations;
}

uint64_t dp_encode_location(struct dp_encode *e, uint64_t mapping, uint64_t address, const struct dp_encode_line *lines,
                            size_t n_lines)
{
    if (is_usual(lines, n_lines) && mapping && address)
        return usual_location(e, mapping, address, lines->function, (uint64_t)lines->line);
    size_t n_bytes = 3 * DP_ENCODE_FIELD_MAX;
    for (size_t i = 0; i < n_lines; i++)
        n_bytes += 4 * DP_ENCODE_FIELD_MAX + lines[i].extra.n_bytes;
    uint64_t id = e->n_locations + 1;
    uint8_t *at = dp_encode_open(e, DP_ENCODE_LOCATIONS, n_bytes);
    if (!at)
        return id;
    e->n_locations = id;
    at = dp_wire_put_field(at, 1, id);
    at = dp_wire_put_nonzero(at, 2, mapping);
    at = dp_wire_put_nonzero(at, 3, address);
    for (size_t i = 0; i < n_lines; i++) {
        uint8_t head[3 * DP_ENCODE_FIELD_MAX];
        uint8_t *stop = dp_wire_put_nonzero(head, 1, lines[i].function);
        stop = dp_wire_put_nonzero(stop, 2, (uint64_t)lines[i].line);
        stop = dp_wire_put_nonzero(stop, 3, (uint64_t)lines[i].column);
        size_t n_head = (size_t)(stop - head);
        at = dp_wire_put(dp_wire_put(at, dp_wire_tag(4, DP_WIRE_BYTES)), n_head + lines[i].extra.n_bytes);
        memcpy(at, head, n_head);
        at = put_extra(at + n_head, &lines[i].extra);
    }
    dp_encode_close(e, DP_ENCODE_LOCATIONS, PROFILE_LOCATION, at);
    return id;
}

uint64_t dp_encode_locations(const struct dp_encode *e)
{
    return e->n_locations;
}

uint64_t dp_encode_mapping(struct dp_encode *e, const struct dp_encode_mapping *mapping)
{
    uint64_t id = ++e->n_mappings;
    uint8_t *at = dp_encode_open(e, DP_ENCODE_REST, 10 * DP_ENCODE_FIELD_MAX);
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
    dp_encode_close(e, DP_ENCODE_REST, PROFILE_MAPPING, dp_wire_put_nonzero(at, 10, mapping->has_inline_frames != 0));
    return id;
}
