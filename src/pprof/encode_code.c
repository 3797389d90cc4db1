/* SPDX-License-Identifier: MIT */
/*
 * pprof/encode_code.c - writes functions, locations and mappings. Nearly all bytes of a small delta are functions with
 * a name and locations with one line; these have calls of their own, which search nothing and branch little. What is
 * unusual in any way takes the general calls.
 */
#include "base/hash.h"
#include "pprof/encode_state.h"

/* A field whose value is given as a ref, which has its bytes; writes four of them. */
static inline uint8_t *put_ref_field(uint8_t *at, unsigned field, uint32_t ref)
{
    uint32_t bytes = htole32(ref);
    *at = (uint8_t)dp_wire_tag(field, DP_WIRE_VARINT);
    memcpy(at + 1, &bytes, sizeof bytes);
    return at + 1 + (ref >> 24);
}

static inline bool is_encoded(uint32_t ref)
{
    return ref >> 24;
}

#define SHORT_MOST (2 + DP_ENCODE_SHORT + DP_WIRE_SLACK)

/* Whether short messages without extra fields can be written now to the part. */
static inline bool is_ready(struct dp_encode *e, enum dp_encode_part part)
{
    if (dp_encode_left(e, part) < SHORT_MOST)
        dp_encode_flush(e);
    return !e->err && !e->extra.n_bytes;
}

/* Ends a short message in place, which began two bytes behind the end of its part. */
static inline void end_short(struct dp_encode *e, enum dp_encode_part part, unsigned field, uint8_t *at)
{
    uint8_t *head = e->ends[part];
    head[0] = (uint8_t)dp_wire_tag(field, DP_WIRE_BYTES);
    head[1] = (uint8_t)(at - head - 2);
    e->ends[part] = at;
}

static bool is(const struct dp_encode_function *f, int64_t name, int64_t system_name, int64_t file, int64_t start_line)
{
    return f->name == name && f->system_name == system_name && f->file == file && f->start_line == start_line;
}

static struct dp_index_probe probe_of(struct dp_encode *e, const struct dp_encode_function *f)
{
    uint64_t hash = dp_index_hash(dp_index_seed(), (uint64_t)f->name << 32 ^ (uint64_t)f->system_name);
    return dp_index_probe(&e->function_index,
                          dp_index_hash(dp_index_hash(hash, (uint64_t)f->file), (uint64_t)f->start_line));
}

/* Adds a function that is not in the set. False: there is no memory. */
static bool add_function(struct dp_encode *e, struct dp_index_probe *probe, const struct dp_encode_function *f)
{
    if (!dp_vec_room(&e->functions, 1) || dp_index_add(&e->function_index, probe) == DP_INDEX_NONE)
        return false;
    struct dp_encode_function *kept = &e->functions.at[e->functions.n++];
    kept->name = f->name; /* one by one: a copied struct is read in larger pieces than it was written, which waits */
    kept->system_name = f->system_name;
    kept->file = f->file;
    kept->start_line = f->start_line;
    kept->id = f->id;
    return true;
}

uint64_t dp_encode_function(struct dp_encode *e, int64_t name, int64_t system_name, int64_t file, int64_t start_line)
{
    struct dp_encode_function f = {name, system_name, file, start_line, e->n_functions + 1};
    struct dp_index_probe probe = probe_of(e, &f);
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
    if (!add_function(e, &probe, &f)) {
        dp_encode_set_full(e);
        return 0;
    }
    at = dp_wire_put_field(at, 1, ++e->n_functions);
    at = dp_wire_put_nonzero(at, 2, (uint64_t)name);
    at = dp_wire_put_nonzero(at, 3, (uint64_t)system_name);
    at = dp_wire_put_nonzero(at, 4, (uint64_t)file);
    dp_encode_close(e, DP_ENCODE_FUNCTIONS, PROFILE_FUNCTION, dp_wire_put_nonzero(at, 5, (uint64_t)start_line));
    return e->n_functions;
}

/* A string that the set got last, and that has no index yet, may be among them. */
void dp_encode_search_all(struct dp_encode *e)
{
    if (dp_vec_room(&e->string_indices, e->unsearched.n + 1))
        for (size_t i = 0; i < e->unsearched.n; i++) {
            const struct dp_encode_unsearched *of = &e->unsearched.at[i];
            uint32_t number = dp_strings_add_hashed(&e->strings, of->name, of->n_bytes, of->hash);
            if (number == DP_STRINGS_NONE)
                break;
            e->string_indices.at[number] = of->index;
            if (number == e->string_indices.n)
                e->string_indices.n++;
            struct dp_encode_function f = {.name = of->index, .system_name = of->index, .id = of->id};
            struct dp_index_probe probe = probe_of(e, &f);
            while (dp_index_candidate(&e->function_index, &probe) != DP_INDEX_NONE)
                ;
            if (!add_function(e, &probe, &f))
                break;
        }
    dp_vec_clear(&e->unsearched);
    e->searches_all = true;
}

uint64_t dp_encode_function_new(struct dp_encode *e, const char *name, size_t n_bytes, uint32_t hash)
{
    uint32_t id = dp_encode_ref(e->n_functions + 1), index = dp_encode_ref(e->n_strings);
    bool is_usual = n_bytes <= DP_ENCODE_SHORT && e->n_strings && is_encoded(id) && is_encoded(index) &&
                    !e->searches_all && !dp_encode_has_bit(e->searched_bits, DP_ENCODE_SEARCHED_BITS, hash);
    if (!is_usual || !is_ready(e, DP_ENCODE_REST) || !is_ready(e, DP_ENCODE_FUNCTIONS) ||
        !dp_vec_room(&e->unsearched, 1)) {
        int64_t string = dp_encode_string_hashed(e, name, n_bytes, hash);
        return dp_encode_function(e, string, string, 0, 0);
    }
    e->unsearched.at[e->unsearched.n++] =
        (struct dp_encode_unsearched){name, (uint32_t)n_bytes, hash, e->n_strings, e->n_functions + 1};
    dp_encode_set_bit(e->unsearched_bits, DP_ENCODE_UNSEARCHED_BITS, hash);
    uint8_t *text = e->ends[DP_ENCODE_REST] + 2;
    memcpy(text, name, n_bytes);
    end_short(e, DP_ENCODE_REST, PROFILE_STRING, text + n_bytes);
    e->n_strings++;
    uint8_t *at = put_ref_field(e->ends[DP_ENCODE_FUNCTIONS] + 2, 1, id);
    at = put_ref_field(put_ref_field(at, 2, index), 3, index);
    end_short(e, DP_ENCODE_FUNCTIONS, PROFILE_FUNCTION, at);
    return ++e->n_functions;
}

uint32_t dp_encode_location_usual(struct dp_encode *e, uint64_t mapping, uint64_t address, uint32_t function)
{
    uint32_t id = dp_encode_ref(e->n_locations + 1);
    if (!is_encoded(id) || !is_encoded(function) || mapping > 0x7f || !mapping || !address ||
        !is_ready(e, DP_ENCODE_LOCATIONS))
        return 0;
    uint8_t *at = put_ref_field(e->ends[DP_ENCODE_LOCATIONS] + 2, 1, id);
    *at++ = dp_wire_tag(2, DP_WIRE_VARINT);
    *at++ = (uint8_t)mapping;
    *at++ = dp_wire_tag(3, DP_WIRE_VARINT);
    at = dp_wire_put_address(at, address);
    *at++ = dp_wire_tag(4, DP_WIRE_BYTES);
    *at++ = (uint8_t)(1 + (function >> 24));
    end_short(e, DP_ENCODE_LOCATIONS, PROFILE_LOCATION, put_ref_field(at, 1, function));
    e->n_locations++;
    return id;
}

uint64_t dp_encode_location(struct dp_encode *e, uint64_t mapping, uint64_t address, const struct dp_encode_line *lines,
                            size_t n_lines)
{
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
