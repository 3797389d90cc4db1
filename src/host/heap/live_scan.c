/* SPDX-License-Identifier: MIT */
/* host/heap/live_scan.c - reads the slots of the table of live blocks: for reports, and for heaps that drop all
 * blocks. */
#include "host/heap/live_slots.h"

static bool is_there(void)
{
    return dp_load_acquire(&dp_live.slots) || dp_load_acquire(&dp_live.aged); /* [INIT] */
}

bool dp_heap_live_blocks_remove_next(uint32_t *at, unsigned heap, struct dp_heap_live_block *entry)
{
    if (!is_there())
        return false;
    for (; *at < dp_heap_live_n_slots(); ++*at) {
        struct dp_heap_live_slot *slot = dp_heap_live_slot(*at);
        uint64_t key = dp_load_acquire(&slot->key); /* [ENTRY] */
        if (key && key != DP_LIVE_BUSY && key >> 56 == heap) {
            dp_heap_live_read_value(slot, entry);
            entry->born_ns = dp_live.births ? dp_load_relaxed(dp_heap_live_birth(slot)) : 0;
            dp_store_release(&slot->key, 0); /* [ENTRY] */
            return true;
        }
    }
    return false;
}

struct dp_heap_live_table dp_heap_live_blocks_table(void)
{
    struct dp_heap_live_slot *slots = is_there() ? dp_live.table : NULL;
    return (struct dp_heap_live_table){(uintptr_t)slots, sizeof *slots, slots ? dp_heap_live_n_slots() : 0};
}

/* [ENTRY]: the key is the same before and after the value is read; else the value may be that of another entry. */
bool dp_heap_live_blocks_read(size_t number, uintptr_t *key, struct dp_heap_live_block *entry)
{
    struct dp_heap_live_slot *slot = dp_heap_live_slot(number);
    *key = dp_load_acquire(&slot->key);
    if (!*key || *key == DP_LIVE_BUSY)
        return false;
    dp_heap_live_read_value(slot, entry);
    entry->born_ns = dp_live.births ? dp_load_relaxed(dp_heap_live_birth(slot)) : 0;
    dp_fence_acquire();
    return dp_load_relaxed(&slot->key) == *key && entry->objects;
}

bool dp_heap_live_blocks_find(uintptr_t key, struct dp_heap_live_block *entry)
{
    if (!is_there() || !key || key == DP_LIVE_BUSY)
        return false;
    struct dp_heap_live_index index = index_of(key);
    unsigned n = n_reached(dp_load_relaxed(&dp_live.filter[index.byte]));
    for (unsigned i = 0; i < n; i++) {
        struct dp_heap_live_slot *bucket = bucket_at(index, key, i);
        for (unsigned k = 0; k < DP_LIVE_SLOTS; k++) {
            if (dp_load_acquire(&bucket[k].key) != key) /* [ENTRY] */
                continue;
            dp_heap_live_read_value(&bucket[k], entry);
            entry->born_ns = 0;
            dp_fence_acquire();
            return dp_load_relaxed(&bucket[k].key) == key && entry->objects; /* [ENTRY], as above */
        }
    }
    return false;
}
