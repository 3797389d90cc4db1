/* SPDX-License-Identifier: MIT */
/*
 * report/values.c - a hash table of buckets, a quarter full at most, so that nearly every value lies in the bucket that
 * it hashes to and is found there without a branch; the processor then has many buckets on their way from memory at a
 * time. The rest lie in the buckets behind.
 *
 * A frame is kept while the generation of objects stays, which moves when one was unloaded. A value without an object
 * has no frame to keep: a library may be mapped there next time. Locations last for one profile, and a list of those
 * given makes forgetting them cost what giving them did.
 */
#include "report/values.h"

#include <errno.h>
#include <string.h>

#define FIRST_SHIFT 52 /* 4096 buckets */

static inline size_t home_of(const struct dp_values *v, uintptr_t value)
{
    return (size_t)(value * (uint64_t)0xE9846AF9B1A615D5u >> v->shift);
}

void dp_values_begin(struct dp_values *v)
{
    bool unloading = dp_objects_unloading();
    uint32_t generation = dp_objects_generation();
    if (unloading || generation != v->generation)
        dp_values_fini(v);
    v->generation = unloading ? 0 : generation; /* 0 is none: it is forgotten next time */
}

bool dp_values_refs(const struct dp_values *v, const uintptr_t *values, size_t n, uint32_t *refs)
{
    bool all = true;
    if (!v->at) {
        memset(refs, 0, n * sizeof *refs);
        return !n;
    }
    for (size_t i = 0; i < n; i++) {
        const struct dp_values_bucket *b = &v->at[home_of(v, values[i])];
        refs[i] =
            (b->ref[0] & -(uint32_t)(b->value[0] == values[i])) | (b->ref[1] & -(uint32_t)(b->value[1] == values[i]));
        all &= refs[i] != 0;
    }
    return all;
}

static uintptr_t *value_at(const struct dp_values *v, size_t place)
{
    return &v->at[place / DP_VALUES_WAYS].value[place % DP_VALUES_WAYS];
}

/* The value's place, or the free one where it would go: bucket * DP_VALUES_WAYS + way. */
static size_t place_of(const struct dp_values *v, uintptr_t value)
{
    size_t place = home_of(v, value) * DP_VALUES_WAYS;
    while (*value_at(v, place) && *value_at(v, place) != value)
        place = (place + 1) & (v->n_buckets * DP_VALUES_WAYS - 1);
    return place;
}

static void put(struct dp_values *v, const struct dp_values *old, size_t from)
{
    size_t to = place_of(v, *value_at(old, from));
    *value_at(v, to) = *value_at(old, from);
    v->n++;
    if (dp_values_frame(old, from))
        dp_values_keep(v, to, dp_values_frame(old, from));
    if ((*dp_values_ref(v, to) = *dp_values_ref(old, from)))
        v->given.at[v->given.n++] = (uint32_t)to; /* as many as before: there is room */
}

/* Makes room: twice as much, or by forgetting values that this profile did not meet, if they are most. */
static int grow(struct dp_values *v)
{
    struct dp_values old = *v;
    bool forget = v->given.n * 2 < v->n;
    v->shift = !old.at ? FIRST_SHIFT : forget ? old.shift : old.shift - 1;
    v->n_buckets = (size_t)1 << (64 - v->shift);
    v->at = dp_mem_map(v->n_buckets * sizeof *v->at);
    if (!v->at) {
        *v = old;
        return -ENOMEM;
    }
    v->n = v->n_frames = 0;
    dp_vec_clear(&v->given);
    for (size_t from = 0; from < old.n_buckets * DP_VALUES_WAYS; from++)
        if (*value_at(&old, from) && (!forget || *dp_values_ref(&old, from)))
            put(v, &old, from);
    dp_mem_unmap(old.at, old.n_buckets * sizeof *old.at);
    return 0;
}

size_t dp_values_place(struct dp_values *v, uintptr_t value)
{
    if (v->n * 4 >= v->n_buckets * DP_VALUES_WAYS && grow(v))
        return SIZE_MAX;
    size_t place = place_of(v, value);
    v->n += !*value_at(v, place);
    *value_at(v, place) = value;
    return place;
}

int dp_values_give(struct dp_values *v, size_t place, uint32_t ref)
{
    uint32_t *given = dp_vec_push(&v->given);
    if (!given)
        return -ENOMEM;
    *given = (uint32_t)place;
    *dp_values_ref(v, place) = ref;
    return 0;
}

void dp_values_end(struct dp_values *v, size_t budget_bytes)
{
    for (size_t i = 0; i < v->given.n; i++)
        *dp_values_ref(v, v->given.at[i]) = 0;
    dp_vec_clear(&v->given);
    if (v->n_buckets * sizeof *v->at > budget_bytes || v->n_frames * 2 < v->n)
        dp_values_fini(v);
}

void dp_values_fini(struct dp_values *v)
{
    dp_mem_unmap(v->at, v->n_buckets * sizeof *v->at);
    dp_vec_fini(&v->given);
    *v = (struct dp_values){.generation = v->generation};
}
