/* SPDX-License-Identifier: MIT */
/* pprof/index.c - the hash table of index.h: open addressing, doubled when half full, if there is memory. */
#include "pprof/index.h"

#include "base/atomic.h"

#include <string.h>
#include <sys/auxv.h>

uint64_t dp_index_seed(void)
{
    static _Atomic uint64_t known; /* all threads store the same value */
    uint64_t seed = dp_load_relaxed(&known);
    const void *random = seed ? NULL : (const void *)getauxval(AT_RANDOM); /* 16 bytes from the kernel */
    if (random) {
        memcpy(&seed, random, sizeof seed);
        dp_store_relaxed(&known, seed);
    }
    return seed;
}

int dp_index_grow(struct dp_index *index)
{
    size_t n_slots = index->n_slots ? index->n_slots * 2 : 1024;
    uint32_t *slots = dp_mem_map(n_slots * sizeof *slots);
    if (!slots)
        return -1;
    for (uint32_t i = 0; i < index->all.n; i++) {
        size_t slot = index->all.at[i].hash & (n_slots - 1);
        while (slots[slot])
            slot = (slot + 1) & (n_slots - 1);
        slots[slot] = i + 1;
    }
    dp_mem_unmap(index->slots, index->n_slots * sizeof *slots);
    index->slots = slots;
    index->n_slots = n_slots;
    return 0;
}

void dp_index_fini(struct dp_index *index)
{
    dp_vec_fini(&index->all);
    dp_mem_unmap(index->slots, index->n_slots * sizeof *index->slots);
    *index = (struct dp_index){0};
}

/*
 * Frees the slots from each entry's first choice up to a free one: the entry stands there, and all slots between were
 * taken before it. If an earlier entry's run ended in between, it has freed this entry's slot too.
 */
static void free_slots(struct dp_index *index)
{
    size_t mask = index->n_slots - 1;
    for (size_t i = 0; i < index->all.n; i++)
        for (size_t slot = index->all.at[i].hash & mask; index->slots[slot]; slot = (slot + 1) & mask)
            index->slots[slot] = 0;
}

void dp_index_clear(struct dp_index *index)
{
    if (index->all.n < index->n_slots / 16) /* after a small profile, in the table of a large one */
        free_slots(index);
    else if (index->slots)
        memset(index->slots, 0, index->n_slots * sizeof *index->slots);
    dp_vec_clear(&index->all);
    index->first = index->last = 0;
}
