/* SPDX-License-Identifier: MIT */
/*
 * host/records/values.c - numbers the values in a runtime's stacks. The first profile with a stack looks up each of its
 * values; then the stack is kept as numbers, 4 bytes per frame. Each later profile costs one load per frame, from an
 * array that is small enough for the cache.
 *
 * 1. A value keeps its number until everything is dropped.
 * 2. A value keeps its frame until an object is unloaded, which changes the generation. A frame outside all objects is
 *    not kept: a library may be mapped there before the next profile.
 * 3. A location is valid for one profile. `resolved` lists the numbers that have one, so clearing them is cheap.
 */
#include "host/records/values.h"

#include "base/hash.h"

#include <errno.h>
#include <string.h>

#define FIRST_SLOTS 4096

void dp_records_values_begin(struct dp_records_values *v, uint64_t answers)
{
    bool unloading = dp_objects_unloading();
    uint32_t generation = dp_objects_generation();
    if (unloading || generation != v->generation || answers != v->answers)
        for (size_t i = 0; i < v->all.n; i++)
            v->all.at[i] = (struct dp_records_value){.value = v->all.at[i].value};
    v->answers = answers;
    v->generation = unloading ? 0 : generation; /* 0: no generation, the frames are dropped next time */
}

/* The value's slot, or the free slot for it. */
static uint32_t *slot_of(const struct dp_records_values *v, uintptr_t value)
{
    size_t i = dp_hash_mix(value) & (v->n_slots - 1);
    while (v->slots[i] && v->all.at[v->slots[i] - 1].value != value)
        i = (i + 1) & (v->n_slots - 1);
    return &v->slots[i];
}

static int grow(struct dp_records_values *v)
{
    size_t n_slots = v->n_slots ? v->n_slots * 2 : FIRST_SLOTS;
    uint32_t *slots = dp_mem_map(n_slots * sizeof *slots);
    if (!slots)
        return -ENOMEM;
    dp_mem_unmap(v->slots, v->n_slots * sizeof *slots);
    v->slots = slots;
    v->n_slots = n_slots;
    for (size_t i = 0; i < v->all.n; i++)
        *slot_of(v, v->all.at[i].value) = (uint32_t)i + 1;
    return 0;
}

uint32_t dp_records_values_number(struct dp_records_values *v, uintptr_t value)
{
    if (v->all.n * 2 >= v->n_slots && grow(v))
        return DP_VALUES_NONE;
    uint32_t *slot = slot_of(v, value);
    if (*slot)
        return *slot - 1;
    if (!dp_vec_room(&v->refs, 1) || !dp_vec_room(&v->all, 1))
        return DP_VALUES_NONE;
    v->refs.at[v->refs.n++] = 0;
    v->all.at[v->all.n++] = (struct dp_records_value){.value = value};
    *slot = (uint32_t)v->all.n;
    return *slot - 1;
}

int dp_records_values_resolve(struct dp_records_values *v, uint32_t number, uint32_t ref)
{
    uint32_t *resolved = dp_vec_push(&v->resolved);
    if (!resolved)
        return -ENOMEM;
    *resolved = number;
    v->refs.at[number] = ref;
    return 0;
}

uint32_t dp_records_values_keep(struct dp_records_values *v, const uint32_t *numbers, size_t n, size_t budget_bytes)
{
    uint32_t *room = (v->stacks.n + n + 1) * sizeof *numbers <= budget_bytes ? dp_vec_room(&v->stacks, n + 1) : NULL;
    v->is_full |= !room;
    if (!room)
        return 0;
    room[0] = (uint32_t)n;
    memcpy(room + 1, numbers, n * sizeof *numbers);
    v->stacks.n += n + 1;
    v->n_used += n + 1;
    return (uint32_t)(v->stacks.n - n) + 1;
}

bool dp_records_values_end(struct dp_records_values *v, size_t budget_bytes)
{
    for (size_t i = 0; i < v->resolved.n; i++)
        v->refs.at[v->resolved.at[i]] = 0;
    dp_vec_clear(&v->resolved);
    size_t n_bytes = v->n_slots * sizeof *v->slots + v->all.n * (sizeof *v->all.at + sizeof *v->refs.at);
    bool drop = n_bytes > budget_bytes || (v->is_full && v->n_used * 2 < v->stacks.n);
    if (drop)
        dp_records_values_fini(v);
    v->n_used = 0;
    v->is_full = false;
    return drop;
}

void dp_records_values_fini(struct dp_records_values *v)
{
    dp_mem_unmap(v->slots, v->n_slots * sizeof *v->slots);
    dp_vec_fini(&v->all);
    dp_vec_fini(&v->refs);
    dp_vec_fini(&v->resolved);
    dp_vec_fini(&v->stacks);
    *v = (struct dp_records_values){.generation = v->generation};
}
