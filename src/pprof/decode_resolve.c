/* SPDX-License-Identifier: MIT */
/*
 * pprof/decode_resolve.c - resolves the ids in a scanned profile to positions.
 *
 * Most producers number from 1 without gaps, so an id is looked up in an array. Some use addresses or hashes as ids;
 * these get a hash table, because an array up to the largest id would be huge.
 */
#include "base/hash.h"
#include "pprof/decode_fields.h"

#include <errno.h>
#include <string.h>

/* Makes room for n ids up to `largest`, all unknown. */
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
    ids->in_order = true;
    ids->seed = hashed ? dp_index_seed() : 0;
    ids->hashed = hashed ? dp_mem_map(want * sizeof *ids->hashed) : NULL;
    return hashed && !ids->hashed ? -ENOMEM : 0;
}

static void ids_fini(struct dp_decode_ids *ids)
{
    dp_mem_unmap(ids->at, ids->n_mapped * sizeof *ids->at);
    dp_mem_unmap(ids->hashed, ids->n_at * sizeof *ids->hashed);
    *ids = (struct dp_decode_ids){0};
}

/* Returns 0, or -EBADMSG if the id is there already. */
static int ids_add(struct dp_decode_ids *ids, uint64_t id, size_t position)
{
    uint32_t *entry = ids_entry(ids, id);
    ids->in_order &= id == position + 1;
    if (*entry)
        return -EBADMSG;
    *entry = (uint32_t)position + 1;
    if (ids->hashed)
        ids->hashed[entry - ids->at] = id;
    return 0;
}

#define NUMBER(ids, vec, name)                                                                           \
    do {                                                                                                 \
        uint64_t largest_id = 0;                                                                         \
        for (size_t i = 0; i < (vec)->n; i++)                                                            \
            largest_id = (vec)->at[i].id > largest_id ? (vec)->at[i].id : largest_id;                    \
        if (ids_reset((ids), (vec)->n, largest_id))                                                      \
            return no_memory(error);                                                                     \
        for (size_t i = 0; i < (vec)->n; i++)                                                            \
            if (ids_add((ids), (vec)->at[i].id, i))                                                      \
                return dp_decode_fail(error, "byte %u: " name ".id %llu stands there twice",             \
                                      (vec)->at[i].message.offset, (unsigned long long)(vec)->at[i].id); \
    } while (0)

int dp_decode_check_strings(const struct dp_decode *d, const struct largest *largest, struct dp_decode_error *error)
{
    if (d->strings.n && d->strings.at[0].n_bytes)
        return dp_decode_fail(error, "byte %u: Profile.string_table does not begin with \"\"", d->strings.at[0].offset);
    if (largest->index && largest->index >= d->strings.n)
        return dp_decode_fail(error, "byte %zu: %s.%s %llu is no index into string_table, which has %zu",
                              (size_t)(largest->at - d->bytes), largest->message, largest->field,
                              (unsigned long long)largest->index, d->strings.n);
    return 0;
}

int dp_decode_resolve(struct dp_decode *d, const struct largest *largest, struct dp_decode_error *error)
{
    int err = dp_decode_check_strings(d, largest, error);
    if (err)
        return err;
    NUMBER(&d->mapping_ids, &d->mappings, "Mapping");
    NUMBER(&d->function_ids, &d->functions, "Function");
    NUMBER(&d->location_ids, &d->locations, "Location");
    for (size_t i = 0; i < d->locations.n; i++) {
        struct dp_decode_location *location = &d->locations.at[i];
        if (location->mapping_id && !(location->mapping = ids_find(&d->mapping_ids, location->mapping_id)))
            return dp_decode_fail(error, "byte %u: Location.mapping_id %llu is no mapping's", location->message.offset,
                                  (unsigned long long)location->mapping_id);
        for (uint32_t j = 0; j < location->n_lines; j++) {
            struct dp_decode_line *line = &d->lines.at[location->first_line + j];
            if (line->function_id && !(line->function = ids_find(&d->function_ids, line->function_id)))
                return dp_decode_fail(error, "byte %u: Line.function_id %llu is no function's",
                                      location->message.offset, (unsigned long long)line->function_id);
        }
    }
    if (d->samples.n && !d->types.n)
        return dp_decode_fail(error, "byte %u: Profile.sample without any sample_type", d->samples.at[0].offset);
    return 0;
}

bool dp_decode_is_text(const struct dp_decode *d, uint32_t string, const char *text)
{
    size_t n_bytes;
    const char *found = dp_decode_text(d, string, &n_bytes);
    return n_bytes == strlen(text) && !memcmp(found, text, n_bytes);
}

size_t dp_decode_type_named(const struct dp_decode *d, const char *name)
{
    size_t type = 0;
    while (type < d->types.n && !dp_decode_is_text(d, d->types.at[type].type, name))
        type++;
    return type;
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
