/* SPDX-License-Identifier: MIT */
/*
 * symbols/names.c - keeps strings in chunks that never move, and a hash set of pointers into them. The first chunk is
 * small, because many processes name few functions; the others have 64 KiB. The strings are names of functions and
 * files: few, looked up once per frame, and needed for the life of the process.
 */
#include "symbols/names.h"

#include "base/hash.h"

#include <string.h>

#define FIRST_CHUNK ((size_t)8 << 10)
#define CHUNK       ((size_t)64 << 10)

static size_t slot_of(const struct dp_names *set, const char *text, size_t n_bytes)
{
    size_t i = dp_hash_bytes(text, n_bytes, 0) & (set->n_slots - 1);
    while (set->slots[i] && (strncmp(set->slots[i], text, n_bytes) || set->slots[i][n_bytes]))
        i = (i + 1) & (set->n_slots - 1);
    return i;
}

static int grow(struct dp_names *set)
{
    size_t n_slots = set->n_slots ? set->n_slots * 2 : 512;
    const char **slots = dp_mem_map(n_slots * sizeof *slots);
    if (!slots)
        return -1;
    struct dp_names old = *set;
    set->slots = slots;
    set->n_slots = n_slots;
    for (size_t i = 0; i < old.n_slots; i++)
        if (old.slots[i])
            set->slots[slot_of(set, old.slots[i], strlen(old.slots[i]))] = old.slots[i];
    dp_mem_unmap(old.slots, old.n_slots * sizeof *slots);
    return 0;
}

static char *carve(struct dp_names *set, size_t n_bytes)
{
    if (n_bytes > set->size - set->used) {
        size_t size = set->size ? CHUNK : FIRST_CHUNK;
        if (size < n_bytes)
            size = n_bytes;
        char *chunk = dp_mem_map(size);
        if (!chunk)
            return NULL;
        set->chunk = chunk;
        set->size = size;
        set->used = 0;
    }
    char *p = set->chunk + set->used;
    set->used += n_bytes;
    return p;
}

const char *dp_names_keep(struct dp_names *set, const char *text, size_t n_bytes)
{
    if (set->n * 2 >= set->n_slots && grow(set))
        return NULL;
    n_bytes = strnlen(text, n_bytes);
    const char **slot = &set->slots[slot_of(set, text, n_bytes)];
    if (*slot)
        return *slot;
    char *copy = carve(set, n_bytes + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, n_bytes);
    copy[n_bytes] = 0;
    *slot = copy;
    set->n++;
    return copy;
}
