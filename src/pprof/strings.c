/* SPDX-License-Identifier: MIT */
/*
 * pprof/strings.c - open addressing over numbers, at most half full; bytes lie one behind the other and are compared,
 * for a hash is not an identity.
 */
#include "pprof/strings.h"

#include "base/hash.h"

#include <string.h>

static int grow(struct dp_strings *set)
{
    size_t n_slots = set->n_slots ? set->n_slots * 2 : 1024;
    uint32_t *slots = dp_mem_map(n_slots * sizeof *slots);
    if (!slots)
        return -1;
    for (uint32_t i = 0; i < set->all.n; i++) {
        size_t at = set->all.at[i].hash & (n_slots - 1);
        while (slots[at])
            at = (at + 1) & (n_slots - 1);
        slots[at] = i + 1;
    }
    dp_mem_unmap(set->slots, set->n_slots * sizeof *slots);
    set->slots = slots;
    set->n_slots = n_slots;
    return 0;
}

static uint32_t add(struct dp_strings *set, const char *bytes, size_t n_bytes)
{
    uint32_t hash = (uint32_t)dp_hash_bytes(bytes, n_bytes, 0);
    if (set->all.n * 2 >= set->n_slots && grow(set))
        return DP_STRINGS_NONE;
    size_t at = hash & (set->n_slots - 1);
    for (; set->slots[at]; at = (at + 1) & (set->n_slots - 1)) {
        const struct dp_string *s = &set->all.at[set->slots[at] - 1];
        if (s->hash == hash && s->n_bytes == n_bytes && !memcmp(set->bytes.at + s->offset, bytes, n_bytes))
            return set->slots[at] - 1;
    }
    if (set->bytes.n + n_bytes + 1 >= UINT32_MAX || !dp_vec_room(&set->bytes, n_bytes + 1))
        return DP_STRINGS_NONE;
    struct dp_string *s = dp_vec_push(&set->all);
    if (!s)
        return DP_STRINGS_NONE;
    *s = (struct dp_string){(uint32_t)set->bytes.n, (uint32_t)n_bytes, hash};
    memcpy(set->bytes.at + set->bytes.n, bytes, n_bytes);
    set->bytes.at[set->bytes.n + n_bytes] = 0;
    set->bytes.n += n_bytes + 1;
    set->slots[at] = (uint32_t)set->all.n;
    return set->slots[at] - 1;
}

uint32_t dp_strings_add(struct dp_strings *set, const char *bytes, size_t n_bytes)
{
    if (!set->all.n && add(set, "", 0) == DP_STRINGS_NONE)
        return DP_STRINGS_NONE;
    return n_bytes ? add(set, bytes, n_bytes) : 0;
}

void dp_strings_fini(struct dp_strings *set)
{
    dp_vec_fini(&set->all);
    dp_vec_fini(&set->bytes);
    dp_mem_unmap(set->slots, set->n_slots * sizeof *set->slots);
    set->slots = NULL;
    set->n_slots = 0;
}
