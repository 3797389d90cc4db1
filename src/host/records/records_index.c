/* SPDX-License-Identifier: MIT */
/*
 * host/records/records_index.c - two open-addressing tables over the entries: one by stack and size, one by id.
 */
#include "host/records/records_index.h"

#include "base/hash.h"
#include "host/records/records.h"

#include <errno.h>

static uint32_t *slot_of(const struct dp_records *r, const struct dp_records_key *key)
{
    size_t i = dp_records_chain(r, &key->stack);
    while (r->slots[i] && !dp_records_is_of(&r->entries.at[r->slots[i] - 1], key))
        i = (i + 1) & (r->n_slots - 1);
    return &r->slots[i];
}

static void fill_slots(struct dp_records *r)
{
    for (size_t i = 0; i < r->entries.n; i++) {
        struct dp_records_key key = {r->entries.at[i].stack, r->entries.at[i].size};
        *slot_of(r, &key) = (uint32_t)i + 1;
    }
}

static int reindex(struct dp_records *r, size_t n_slots)
{
    uint32_t *slots = dp_mem_map(n_slots * sizeof *slots);
    if (!slots)
        return -ENOMEM;
    dp_mem_unmap(r->slots, r->n_slots * sizeof *slots);
    r->slots = slots;
    r->n_slots = n_slots;
    fill_slots(r);
    return 0;
}

uint32_t dp_records_find(const struct dp_records *r, const struct dp_records_key *key)
{
    return r->n_slots ? *slot_of(r, key) - 1 : DP_RECORDS_NONE;
}

uint32_t dp_records_insert(struct dp_records *r, const struct dp_records_key *key)
{
    if ((r->entries.n + 1) * 4 > r->n_slots * 3 && reindex(r, r->n_slots ? r->n_slots * 2 : 1024))
        return DP_RECORDS_NONE;
    if (!dp_vec_room(&r->entries, 1) || !dp_vec_room(&r->states, 1) || !dp_vec_room(&r->notes, 1))
        return DP_RECORDS_NONE;
    r->entries.at[r->entries.n++] = (struct dp_records_entry){.stack = key->stack, .size = key->size};
    r->states.at[r->states.n++] = (struct dp_records_state){0};
    r->notes.at[r->notes.n++] = 0;
    *slot_of(r, key) = (uint32_t)r->entries.n;
    return (uint32_t)r->entries.n - 1;
}

/* ---- ids -------------------------------------------------------------------------------------------------------- */

static struct dp_records_id_slot *id_slot_of(struct dp_records_id_slot *slots, size_t n_slots, uint64_t id)
{
    size_t i = dp_hash_mix(id) & (n_slots - 1);
    while (slots[i].id && slots[i].id != id)
        i = (i + 1) & (n_slots - 1);
    return &slots[i];
}

/* DP_RECORDS_NONE: not met yet. */
uint32_t dp_records_find_id(const struct dp_records *r, uint64_t id)
{
    const struct dp_records_id_slot *slot = r->n_id_slots ? id_slot_of(r->ids, r->n_id_slots, id) : NULL;
    return slot && slot->id ? slot->entry : DP_RECORDS_NONE;
}

static void clear_id_slots(struct dp_records *r)
{
    for (size_t i = 0; i < r->n_id_slots; i++)
        r->ids[i].id = 0;
    r->n_ids = 0;
}

/* Without memory for it an id is met again and again, and its stack is read each time. */
void dp_records_add_id(struct dp_records *r, uint64_t id, uint32_t entry)
{
    if ((r->n_ids + 1) * 2 > r->n_id_slots) {
        size_t n = r->n_id_slots ? r->n_id_slots * 2 : 1024;
        struct dp_records_id_slot *slots = dp_mem_map(n * sizeof *slots);
        if (!slots)
            return;
        for (size_t i = 0; i < r->n_id_slots; i++)
            if (r->ids[i].id)
                *id_slot_of(slots, n, r->ids[i].id) = r->ids[i];
        dp_mem_unmap(r->ids, r->n_id_slots * sizeof *slots);
        r->ids = slots;
        r->n_id_slots = n;
    }
    struct dp_records_id_slot *slot = id_slot_of(r->ids, r->n_id_slots, id);
    r->n_ids += !slot->id;
    *slot = (struct dp_records_id_slot){id, entry};
    r->states.at[entry].id = id;
}

void dp_records_reset_ids(struct dp_records *r)
{
    clear_id_slots(r);
    for (size_t i = 0; i < r->states.n; i++)
        r->states.at[i].id = 0;
}

int dp_records_evict(struct dp_records *r)
{
    size_t kept = 0, n = r->entries.n;
    for (size_t i = 0; i < n; i++)
        if (r->dump - r->states.at[i].shown <= 1) {
            r->entries.at[kept] = r->entries.at[i];
            r->states.at[kept] = r->states.at[i];
            r->notes.at[kept++] = r->notes.at[i];
        }
    if (kept == n)
        return -ENOMEM;
    r->entries.n = r->states.n = r->notes.n = kept;
    for (size_t i = 0; i < r->n_slots; i++)
        r->slots[i] = 0;
    fill_slots(r);
    clear_id_slots(r);
    for (size_t i = 0; i < kept; i++)
        if (r->states.at[i].id)
            dp_records_add_id(r, r->states.at[i].id, (uint32_t)i); /* there is room: they were more before */
    return 0;
}
