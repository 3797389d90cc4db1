/* SPDX-License-Identifier: MIT */
/*
 * host/records/records_index.h - the entries of a consumer's records, and the ways to find one: by its stack and size,
 * or by its id.
 *
 * Only for host/records/records.c, which says what an entry is.
 */
#pragma once

#include "base/mem.h"
#include "host/records/stack_fingerprint.h"

#define DP_RECORDS_NONE UINT32_MAX

struct dp_records_entry {
    struct dp_records_stack_fingerprint stack;
    int64_t size; /* of a block; with it the key */
};

/* What each dump asks of an entry. */
struct dp_records_state {
    int64_t n, v;   /* last committed */
    uint64_t id;    /* of the last record that had one; 0: none */
    uint32_t shown; /* the last dump that showed it */
    uint32_t row;   /* if that row of this dump is the entry's: rows of another dump may stand there */
};

struct dp_records_id_slot {
    uint64_t id; /* 0: free */
    uint32_t entry;
};

/* An entry whose counters began anew, and where. */
struct dp_records_begin {
    uint32_t entry;
    int64_t n, v;
};

struct dp_records {
    struct {
        struct dp_records_entry *at;
        size_t n, cap;
    } entries;
    DP_VEC(struct dp_records_state) states; /* by entry */
    DP_VEC(uint32_t) notes;                 /* by entry: the caller's */
    DP_VEC(struct dp_records_begin) begins;
    uint32_t *slots; /* entry + 1; 0: free */
    size_t n_slots;
    struct dp_records_id_slot *ids;
    size_t n_id_slots, n_ids;
    uint32_t dump;   /* number of the one under way */
    size_t n_plenty; /* more entries than this: time to forget stale ones */
};

struct dp_records_key {
    struct dp_records_stack_fingerprint stack;
    int64_t size;
};

static inline bool dp_records_is_of(const struct dp_records_entry *e, const struct dp_records_key *key)
{
    return e->size == key->size && dp_records_stack_fingerprint_equal(&e->stack, &key->stack);
}

/* Where the entries of one stack begin, whatever their size; they lie in one chain of slots. */
static inline size_t dp_records_chain(const struct dp_records *r, const struct dp_records_stack_fingerprint *stack)
{
    return (stack->word[0] ^ stack->word[3]) & (r->n_slots - 1);
}

/* The entry of a key; NONE: there is none. */
uint32_t dp_records_find(const struct dp_records *, const struct dp_records_key *);
/* A new entry of a key that was not found; NONE: no memory. */
uint32_t dp_records_insert(struct dp_records *, const struct dp_records_key *);

/* The entry of an id; NONE: the id was not met yet. */
uint32_t dp_records_find_id(const struct dp_records *, uint64_t id);
/* From now on the id leads to the entry. Without memory for it its stack is read each time. */
void dp_records_add_id(struct dp_records *, uint64_t id, uint32_t entry);

/*
 * Forgets the entries that neither the last dump nor this one, as far as it was read, showed. 0: some were forgotten;
 * -ENOMEM: there are none.
 */
int dp_records_evict(struct dp_records *);
