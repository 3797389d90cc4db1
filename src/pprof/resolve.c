/* SPDX-License-Identifier: MIT */
/*
 * pprof/resolve.c - decode's second half: ids to positions, and samples taken apart with their help.
 *
 * Most producers number from 1 without gaps, so an id is looked up in an array; some use addresses or hashes as ids,
 * and get a hash table instead of an array that their largest id would blow up.
 */
#include "base/hash.h"
#include "pprof/fields.h"

#include <errno.h>

static int no_memory(struct dp_input_error *error)
{
    dp_input_fail(error, "out of memory");
    return -ENOMEM;
}

/* Room for n ids up to `largest`, all unknown. */
static int ids_reset(struct dp_decode_ids *ids, size_t n, uint64_t largest)
{
    int hashed = largest > 8 * (uint64_t)n + 1024;
    size_t want = hashed ? 1024 : (size_t)largest + 1;
    while (hashed && want < 2 * n)
        want *= 2;
    if (want > ids->n_mapped) {
        dp_mem_unmap(ids->at, ids->n_mapped * sizeof *ids->at);
        ids->n_mapped = 0;
        ids->at = dp_mem_map(want * sizeof *ids->at);
        if (!ids->at)
            return -ENOMEM;
        ids->n_mapped = want;
    } else {
        memset(ids->at, 0, want * sizeof *ids->at);
    }
    dp_mem_unmap(ids->hashed, ids->n_at * sizeof *ids->hashed);
    ids->n_at = want;
    ids->hashed = hashed ? dp_mem_map(want * sizeof *ids->hashed) : NULL;
    return hashed && !ids->hashed ? -ENOMEM : 0;
}

static void ids_fini(struct dp_decode_ids *ids)
{
    dp_mem_unmap(ids->at, ids->n_mapped * sizeof *ids->at);
    dp_mem_unmap(ids->hashed, ids->n_at * sizeof *ids->hashed);
    *ids = (struct dp_decode_ids){0};
}

/* Where the id's entry is, or would be; NULL: an array's end. */
static uint32_t *ids_entry(const struct dp_decode_ids *ids, uint64_t id)
{
    if (!ids->hashed)
        return id < ids->n_at ? &ids->at[id] : NULL;
    size_t slot = dp_hash_mix(id) & (ids->n_at - 1);
    while (ids->at[slot] && ids->hashed[slot] != id)
        slot = (slot + 1) & (ids->n_at - 1);
    return &ids->at[slot];
}

static inline uint32_t ids_find(const struct dp_decode_ids *ids, uint64_t id)
{
    if (__builtin_expect(!ids->hashed, 1))
        return id < ids->n_at ? ids->at[id] : 0;
    return *ids_entry(ids, id);
}

/* 0, or -EBADMSG for an id that stands there already. */
static int ids_add(struct dp_decode_ids *ids, uint64_t id, size_t position)
{
    uint32_t *entry = ids_entry(ids, id);
    if (*entry)
        return -EBADMSG;
    *entry = (uint32_t)position + 1;
    if (ids->hashed)
        ids->hashed[entry - ids->at] = id;
    return 0;
}

#define NUMBER(ids, vec, name)                                                                          \
    do {                                                                                                \
        uint64_t largest_id = 0;                                                                        \
        for (size_t i = 0; i < (vec)->n; i++)                                                           \
            largest_id = (vec)->at[i].id > largest_id ? (vec)->at[i].id : largest_id;                   \
        if (ids_reset((ids), (vec)->n, largest_id))                                                     \
            return no_memory(error);                                                                    \
        for (size_t i = 0; i < (vec)->n; i++)                                                           \
            if (ids_add((ids), (vec)->at[i].id, i))                                                     \
                return dp_input_fail(error, "byte %u: " name ".id %llu stands there twice",             \
                                     (vec)->at[i].message.offset, (unsigned long long)(vec)->at[i].id); \
    } while (0)

static int check_strings(const struct dp_decode *d, const struct largest *largest, struct dp_input_error *error)
{
    if (d->strings.n && d->strings.at[0].n_bytes)
        return dp_input_fail(error, "byte %u: Profile.string_table does not begin with \"\"", d->strings.at[0].offset);
    if (largest->index && largest->index >= d->strings.n)
        return dp_input_fail(error, "byte %zu: %s.%s %llu is no index into string_table, which has %zu",
                             (size_t)(largest->at - d->bytes), largest->message, largest->field,
                             (unsigned long long)largest->index, d->strings.n);
    return 0;
}

int dp_decode_resolve(struct dp_decode *d, const struct largest *largest, struct dp_input_error *error)
{
    int result = check_strings(d, largest, error);
    if (result)
        return result;
    NUMBER(&d->mapping_ids, &d->mappings, "Mapping");
    NUMBER(&d->function_ids, &d->functions, "Function");
    NUMBER(&d->location_ids, &d->locations, "Location");
    for (size_t i = 0; i < d->locations.n; i++) {
        struct dp_decode_location *location = &d->locations.at[i];
        if (location->mapping_id && !(location->mapping = ids_find(&d->mapping_ids, location->mapping_id)))
            return dp_input_fail(error, "byte %u: Location.mapping_id %llu is no mapping's", location->message.offset,
                                 (unsigned long long)location->mapping_id);
        for (uint32_t j = 0; j < location->n_lines; j++) {
            struct dp_decode_line *line = &d->lines.at[location->first_line + j];
            if (line->function_id && !(line->function = ids_find(&d->function_ids, line->function_id)))
                return dp_input_fail(error, "byte %u: Line.function_id %llu is no function's", location->message.offset,
                                     (unsigned long long)line->function_id);
        }
    }
    if (d->samples.n && !d->types.n)
        return dp_input_fail(error, "byte %u: Profile.sample without any sample_type", d->samples.at[0].offset);
    return 0;
}

void dp_decode_fini(struct dp_decode *d)
{
    dp_vec_fini(&d->strings);
    dp_vec_fini(&d->samples);
    dp_vec_fini(&d->types);
    dp_vec_fini(&d->mappings);
    dp_vec_fini(&d->functions);
    dp_vec_fini(&d->locations);
    dp_vec_fini(&d->lines);
    dp_vec_fini(&d->comments);
    dp_vec_fini(&d->unknown);
    ids_fini(&d->mapping_ids);
    ids_fini(&d->function_ids);
    ids_fini(&d->location_ids);
}

static int add_location(const struct dp_decode *d, const struct fields *f, const uint8_t *at, uint64_t id,
                        struct dp_decode_sample *sample)
{
    uint32_t found = ids_find(&d->location_ids, id);
    if (!found)
        return fail_number(f, at, "location_id", id, "is no location's");
    sample->locations.at[sample->locations.n++] = found - 1;
    return 0;
}

static int get_locations(const struct dp_decode *d, const struct fields *f, const struct field *field,
                         struct dp_decode_sample *sample)
{
    size_t n_most = field->type == DP_WIRE_BYTES ? field->n_bytes : 1;
    if (field->type != DP_WIRE_BYTES && field->type != DP_WIRE_VARINT)
        return wrong_type(f, field, "location_id");
    if (!dp_vec_room(&sample->locations, n_most + 1))
        return no_memory(f->error);
    if (field->type == DP_WIRE_VARINT)
        return add_location(d, f, field->start, field->value, sample);
    const uint8_t *at = field->bytes, *end = at + field->n_bytes;
    while (at < end) {
        uint64_t id;
        const uint8_t *start = at;
        at = dp_wire_get(at, end, &id);
        if (!at)
            return fail_at(f, start, "location_id", "is a number that does not end");
        int result = add_location(d, f, start, id, sample);
        if (result)
            return result;
    }
    return 0;
}

static int get_values(const struct fields *f, const struct field *field, struct dp_decode_sample *sample)
{
    size_t n_most = field->type == DP_WIRE_BYTES ? field->n_bytes : 1;
    if (field->type != DP_WIRE_BYTES && field->type != DP_WIRE_VARINT)
        return wrong_type(f, field, "value");
    if (!dp_vec_room(&sample->values, n_most + 1))
        return no_memory(f->error);
    if (field->type == DP_WIRE_VARINT) {
        sample->values.at[sample->values.n++] = (int64_t)field->value;
        return 0;
    }
    const uint8_t *at = field->bytes, *end = at + field->n_bytes;
    while (at < end) {
        uint64_t value;
        const uint8_t *start = at;
        at = dp_wire_get(at, end, &value);
        if (!at)
            return fail_at(f, start, "value", "is a number that does not end");
        sample->values.at[sample->values.n++] = (int64_t)value;
    }
    return 0;
}

static int get_label(struct fields outer, const struct field *field, struct dp_decode_sample *sample)
{
    if (field->type != DP_WIRE_BYTES)
        return wrong_type(&outer, field, "label");
    struct fields f = inside(&outer, field, "Label");
    struct dp_decode_label label = {0};
    struct field in;
    int more;
    while ((more = next_field(&f, &in)) > 0) {
        switch (in.number) {
        case 1:
            more = get_string(&f, &in, "key", &label.key);
            break;
        case 2:
            more = get_string(&f, &in, "str", &label.str);
            break;
        case 3:
            more = get_signed(&f, &in, "num", &label.num);
            break;
        case 4:
            more = get_string(&f, &in, "num_unit", &label.num_unit);
            break;
        default:
            label.unknown = (struct dp_decode_span){(uint32_t)(f.start - f.base), (uint32_t)(f.end - f.start)};
        }
        if (more < 0)
            return more;
    }
    if (more < 0)
        return more;
    struct dp_decode_label *to = dp_vec_push(&sample->labels);
    if (!to)
        return no_memory(f.error);
    *to = label;
    return 0;
}

int dp_decode_sample(const struct dp_decode *d, size_t i, struct dp_decode_sample *sample, struct dp_input_error *error)
{
    const uint8_t *start = d->bytes + d->samples.at[i].offset;
    struct largest largest = {0};
    struct fields f = {d->bytes, start, start, start + d->samples.at[i].n_bytes, "Sample", &largest, error};
    struct field field;
    int more;
    dp_vec_clear(&sample->locations);
    dp_vec_clear(&sample->values);
    dp_vec_clear(&sample->labels);
    sample->unknown = (struct dp_decode_span){0};
    while ((more = next_field(&f, &field)) > 0) {
        switch (field.number) {
        case 1:
            more = get_locations(d, &f, &field, sample);
            break;
        case 2:
            more = get_values(&f, &field, sample);
            break;
        case 3:
            more = get_label(f, &field, sample);
            break;
        default:
            sample->unknown = d->samples.at[i];
        }
        if (more < 0)
            return more;
    }
    if (!more && largest.index)
        more = check_strings(d, &largest, error);
    if (!more && sample->values.n != d->types.n)
        return dp_input_fail(error, "byte %u: Sample.value has %zu values for %zu sample types",
                             d->samples.at[i].offset, sample->values.n, d->types.n);
    return more;
}

void dp_decode_sample_fini(struct dp_decode_sample *sample)
{
    dp_vec_fini(&sample->locations);
    dp_vec_fini(&sample->values);
    dp_vec_fini(&sample->labels);
}

int dp_decode_unknown(const struct dp_decode *d, struct dp_decode_span message, unsigned last_known,
                      struct dp_decode_fields *out)
{
    const uint8_t *start = d->bytes + message.offset;
    struct fields f = {d->bytes, start, start, start + message.n_bytes, "", NULL, NULL};
    struct field field;
    while (next_field(&f, &field) > 0) {
        if (field.number <= last_known)
            continue;
        size_t n = (size_t)(f.at - field.start);
        if (!dp_vec_room(&out->bytes, n))
            return -ENOMEM;
        memcpy(out->bytes.at + out->bytes.n, field.start, n);
        out->bytes.n += n;
    }
    return 0;
}
