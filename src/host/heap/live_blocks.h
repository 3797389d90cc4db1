/* SPDX-License-Identifier: MIT */
/*
 * host/heap/live_blocks.h - the table of sampled blocks in use, key -> {record, objects, bytes, birth}; and the filter
 * by which a free of any other block costs one load.
 */
#pragma once

#include "host/table/table.h"

#include <stdbool.h>

struct dp_heap_live_block {
    dp_record_id record;
    uint32_t objects; /* the weight */
    uint64_t bytes;   /* weight * size */
    int64_t born_ns;  /* of dp_clock_ns; set by what takes an entry out, if births are kept; 0: not known */
};

/* Whether entries remember when they were inserted, and how exactly: to a tick of the kernel's clock, or to the ns. */
enum dp_heap_births { DP_BIRTHS_NONE, DP_BIRTHS_COARSE, DP_BIRTHS_EXACT };

/*
 * Maps the table within budget_bytes. rate: bytes between samples; where they are rare, entries share pages. -ENOMEM:
 * no table. Context: init.
 */
int dp_heap_live_blocks_init(size_t budget_bytes, int64_t rate, enum dp_heap_births births);
bool dp_heap_live_blocks_has_births(void);

/*
 * To be called if every block will be recorded: makes the table use huge pages. Context: any thread; before init it
 * does nothing.
 */
void dp_heap_live_blocks_raise_density(void);

/*
 * Context of all that follow: hook. key is DELTAPROF_KEY(heap, ptr). insert returns false if there is no room near the
 * key's index, or if the key is 0 or ~0, which cannot be stored: nothing was inserted. If the key is there already, its
 * block was freed without a hook; if insert meets the old entry, it removes it and returns it in `stale` (objects 0:
 * none).
 */
bool dp_heap_live_blocks_insert(uintptr_t key, const struct dp_heap_live_block *entry,
                                struct dp_heap_live_block *stale);
/*
 * For reports: the memory of the table, so that pages that were never touched can be left out; and the entry in a slot
 * of it, with its key. False: the slot is empty, or is being changed.
 */
struct dp_heap_live_table {
    uintptr_t start;
    size_t slot_bytes, n_slots; /* 0: there is no table */
};
struct dp_heap_live_table dp_heap_live_blocks_table(void);
bool dp_heap_live_blocks_read(size_t slot, uintptr_t *key, struct dp_heap_live_block *entry);

/* Finds the entry of a key. False: it is not there. Changes nothing. Context: any. */
bool dp_heap_live_blocks_find(uintptr_t key, struct dp_heap_live_block *entry);

/* Removes the next entry of a heap, from slot *at on (0 at first); false: there is none. */
bool dp_heap_live_blocks_remove_next(uint32_t *at, unsigned heap, struct dp_heap_live_block *entry);
bool dp_heap_live_blocks_remove(uintptr_t key,
                                struct dp_heap_live_block *entry); /* Removes the entry. False: not there. */

/* Takes the entry out but reserves its slot: then either unclaim puts it back (never fails) or drop frees the slot. */
bool dp_heap_live_blocks_claim(uintptr_t key, struct dp_heap_live_block *entry, uint32_t *slot);
void dp_heap_live_blocks_unclaim(uintptr_t key, uint32_t slot);
void dp_heap_live_blocks_drop(uint32_t slot);

/*
 * The two halves of insert, for a caller that walks a stack in between: where the entry of a key goes, whose cache
 * lines are prefetched, and the insert there.
 */
struct dp_heap_live_place {
    struct dp_heap_live_slot *slot; /* the first one to try; NULL: births are kept, or there is no table */
    uint32_t byte;                  /* the index of its filter byte */
};
struct dp_heap_live_place dp_heap_live_blocks_prefetch(uintptr_t key);
bool dp_heap_live_blocks_insert_at(struct dp_heap_live_place place, uintptr_t key,
                                   const struct dp_heap_live_block *entry, struct dp_heap_live_block *stale);

/*
 * Makes deltaprof_may_be_live return true for every address of [start, start + n_bytes). Works before init. Context:
 * one thread.
 */
void dp_heap_live_blocks_mark(uintptr_t start, size_t n_bytes);

/* In a forked child: resets the cleaning of a thread that does not exist in it. Only stores. */
void dp_heap_live_blocks_fork_child(void);
