/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/symbol_functions.c - keeps functions in blocks that never move, by number, and a hash table of their
 * numbers. The first blocks are small, because many processes name few functions: block i has FIRST << i, so 22 blocks
 * have more numbers than there is memory for.
 */
#include "host/symbols/symbol_functions.h"

#include "base/hash.h"
#include "base/mem.h"

enum { FIRST = 64, BLOCKS = 22 };

static struct {
    struct dp_symbols_function *blocks[BLOCKS];
    uint32_t *slots; /* number + 1; 0: free; at most half are taken */
    size_t n_slots;
    uint32_t n;
} functions;

static unsigned block_of(uint32_t number)
{
    return 31 - (unsigned)__builtin_clz(number / FIRST + 1);
}

static struct dp_symbols_function *at(uint32_t number)
{
    unsigned block = block_of(number);
    return &functions.blocks[block][number - FIRST * ((1u << block) - 1)];
}

const struct dp_symbols_function *dp_symbols_function(uint32_t number)
{
    return at(number);
}

static uint32_t *slot_of(const struct dp_symbols_function *f)
{
    uint64_t hash = dp_hash_mix((uintptr_t)f->name ^ (uintptr_t)f->system_name << 16 ^ (uintptr_t)f->file << 32);
    for (size_t i = hash + (uint64_t)f->start_line;; i++) {
        uint32_t *slot = &functions.slots[i & (functions.n_slots - 1)];
        const struct dp_symbols_function *other = *slot ? at(*slot - 1) : NULL;
        if (!other || (other->name == f->name && other->system_name == f->system_name && other->file == f->file &&
                       other->start_line == f->start_line))
            return slot;
    }
}

static int grow(void)
{
    size_t n_slots = 512;
    while (n_slots <= functions.n * (size_t)2)
        n_slots *= 2;
    uint32_t *slots = dp_mem_map(n_slots * sizeof *slots);
    if (!slots)
        return -1;
    dp_mem_unmap(functions.slots, functions.n_slots * sizeof *slots);
    functions.slots = slots;
    functions.n_slots = n_slots;
    for (uint32_t i = 0; i < functions.n; i++)
        *slot_of(at(i)) = i + 1;
    return 0;
}

const struct dp_symbols_function *dp_symbols_functions_keep(const struct dp_symbols_function *f)
{
    if (functions.n * (size_t)2 >= functions.n_slots && grow())
        return NULL;
    uint32_t *slot = slot_of(f);
    if (*slot)
        return at(*slot - 1);
    unsigned block = block_of(functions.n);
    if (block >= BLOCKS)
        return NULL;
    if (!functions.blocks[block]) {
        functions.blocks[block] = dp_mem_map(((size_t)FIRST << block) * sizeof *f);
        if (!functions.blocks[block])
            return NULL;
    }
    struct dp_symbols_function *kept = at(functions.n);
    *kept = *f;
    kept->number = functions.n++;
    *slot = functions.n;
    return kept;
}

void dp_symbols_functions_abandon(void)
{
    functions.slots = NULL;
    functions.n_slots = 0;
}
