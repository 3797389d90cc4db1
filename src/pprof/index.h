/* SPDX-License-Identifier: MIT */
/*
 * pprof/index.h - a hash table that finds the number of an entry. The entries lie in the caller's arrays, numbered in
 * order of arrival; the caller compares them, since equal hashes do not mean equal entries.
 *
 * It also remembers the order in which entries were used last time. Successive profiles of one process have nearly the
 * same entries in nearly the same order. So the next entry is guessed and compared once; if the guess is right, nothing
 * is hashed or searched.
 *
 *     uint32_t id = dp_index_guess(index);
 *     if (id == DP_INDEX_NONE || !same(id)) {
 *         struct dp_index_probe probe = dp_index_probe(index, hash);
 *         while ((id = dp_index_candidate(index, &probe)) != DP_INDEX_NONE && !same(id)) {}
 *         if (id == DP_INDEX_NONE)
 *             id = dp_index_add(index, &probe);    // NONE: no memory
 *     }
 *     dp_index_seen(index, id);
 */
#pragma once

#include "base/hash.h"
#include "base/mem.h"

#include <stddef.h>
#include <stdint.h>

#define DP_INDEX_NONE UINT32_MAX

struct dp_index_entry {
    uint32_t hash, next; /* next: number + 1 of the entry that followed it last time; 0: not known */
};

/* Zero is an empty one. */
struct dp_index {
    DP_VEC(struct dp_index_entry) all;
    uint32_t *slots; /* number + 1; 0: free; at most half are taken */
    size_t n_slots;
    uint32_t first, last; /* number + 1, in this pass; 0: no entry was used yet */
};

struct dp_index_probe {
    size_t slot;
    uint32_t hash;
};

/*
 * The random seed of hashes of outside data; each word is mixed in separately. So a prepared file cannot give all its
 * entries the same hash, which would make the search quadratic.
 */
uint64_t dp_index_seed(void);
static inline uint64_t dp_index_hash(uint64_t hash, uint64_t word)
{
    return dp_hash_mix(hash ^ word);
}

void dp_index_fini(struct dp_index *);
void dp_index_clear(struct dp_index *); /* makes it empty, keeps its memory */
int dp_index_grow(struct dp_index *);

static inline size_t dp_index_bytes(const struct dp_index *index) /* of memory */
{
    return index->all.cap * sizeof *index->all.at + index->n_slots * sizeof *index->slots;
}

/* Begins another pass: the first entry is guessed again. */
static inline void dp_index_rewind(struct dp_index *index)
{
    index->last = 0;
}

static inline uint32_t dp_index_guess(const struct dp_index *index)
{
    return (index->last ? index->all.at[index->last - 1].next : index->first) - 1;
}

static inline void dp_index_seen(struct dp_index *index, uint32_t id)
{
    if (index->last)
        index->all.at[index->last - 1].next = id + 1;
    else
        index->first = id + 1;
    index->last = id + 1;
}

static inline struct dp_index_probe dp_index_probe(const struct dp_index *index, uint64_t hash)
{
    return (struct dp_index_probe){(size_t)hash, (uint32_t)hash};
}

/* The next entry with that hash, or NONE: then the probe stands at the free place. */
static inline uint32_t dp_index_candidate(const struct dp_index *index, struct dp_index_probe *probe)
{
    while (index->n_slots) {
        uint32_t taken = index->slots[probe->slot & (index->n_slots - 1)];
        if (!taken)
            break;
        probe->slot++;
        if (index->all.at[taken - 1].hash == probe->hash)
            return taken - 1;
    }
    return DP_INDEX_NONE;
}

/* Adds the entry that the probe did not find; returns its number. */
static inline uint32_t dp_index_add(struct dp_index *index, struct dp_index_probe *probe)
{
    if (index->all.n >= UINT32_MAX - 1 || !dp_vec_room(&index->all, 1))
        return DP_INDEX_NONE;
    if (index->all.n * 2 >= index->n_slots) {
        if (dp_index_grow(index) == 0) {
            probe->slot = probe->hash;
            while (index->slots[probe->slot & (index->n_slots - 1)])
                probe->slot++;
        } else if (index->all.n * 8 >= index->n_slots * 7) {
            return DP_INDEX_NONE; /* until then, without memory, it becomes fuller and slower */
        }
    }
    index->all.at[index->all.n++] = (struct dp_index_entry){.hash = probe->hash};
    index->slots[probe->slot & (index->n_slots - 1)] = (uint32_t)index->all.n;
    return (uint32_t)index->all.n - 1;
}
