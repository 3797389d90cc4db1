/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/name_set.c - keeps strings in chunks that never move, and a hash set of pointers into them. The first
 * chunk is small, because many processes name few functions; the others have 64 KiB. The strings are names of functions
 * and files: few, looked up once per frame, and needed for the life of the process.
 */
#include "host/symbols/name_set.h"

#include "pprof/encode_utf8.h"
#include "pprof/strings.h"

#include <string.h>

#define FIRST_CHUNK ((size_t)8 << 10)
#define CHUNK       ((size_t)64 << 10)

static bool is(const struct dp_symbols_name *name, const char *text, size_t n_bytes, uint32_t hash)
{
    return name->hash == hash && name->n_bytes == n_bytes && !memcmp(name->text, text, n_bytes);
}

static struct dp_symbols_name **slot_of(const struct dp_symbols_names *set, const char *text, size_t n_bytes,
                                        uint32_t hash)
{
    size_t i = hash & (set->n_slots - 1);
    while (set->slots[i] && !is(set->slots[i], text, n_bytes, hash))
        i = (i + 1) & (set->n_slots - 1);
    return &set->slots[i];
}

static int grow(struct dp_symbols_names *set)
{
    size_t n_slots = set->n_slots ? set->n_slots * 2 : 512;
    struct dp_symbols_name **slots = dp_mem_map(n_slots * sizeof *slots);
    if (!slots)
        return -1;
    struct dp_symbols_names old = *set;
    set->slots = slots;
    set->n_slots = n_slots;
    for (size_t i = 0; i < old.n_slots; i++)
        if (old.slots[i])
            *slot_of(set, old.slots[i]->text, old.slots[i]->n_bytes, old.slots[i]->hash) = old.slots[i];
    dp_mem_unmap(old.slots, old.n_slots * sizeof *slots);
    return 0;
}

static void *allocate(struct dp_symbols_names *set, size_t n_bytes)
{
    n_bytes = (n_bytes + _Alignof(struct dp_symbols_name) - 1) & ~(_Alignof(struct dp_symbols_name) - 1);
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

const char *dp_symbols_names_keep(struct dp_symbols_names *set, const char *text, size_t n_bytes)
{
    if (set->n * 2 >= set->n_slots && grow(set))
        return NULL;
    n_bytes = strnlen(text, n_bytes);
    uint32_t hash = dp_strings_hash(text, n_bytes);
    struct dp_symbols_name **slot = slot_of(set, text, n_bytes, hash);
    if (*slot)
        return (*slot)->text;
    struct dp_symbols_name *name = n_bytes < UINT32_MAX ? allocate(set, sizeof *name + n_bytes + 1) : NULL;
    if (!name)
        return NULL;
    set->n++;
    name->n_bytes = (uint32_t)n_bytes;
    name->hash = hash;
    name->is_utf8 = dp_encode_utf8_prefix(text, n_bytes) == n_bytes;
    memcpy(name->text, text, n_bytes);
    name->text[n_bytes] = 0;
    *slot = name;
    return name->text;
}
