/* SPDX-License-Identifier: MIT */
/*
 * record/live_blocks.h - the table of sampled blocks in use, key -> {record, objects, bytes}; and the filter by which a
 * free of any other block costs one load.
 */
#pragma once

#include "record/table.h"

#include <stdbool.h>

struct dp_live_block {
    dp_record_id record;
    uint32_t objects; /* the weight */
    uint64_t bytes;   /* weight * size */
};

/* Maps the table within budget_bytes. -ENOMEM: no table. Context: init. */
int dp_live_blocks_init(size_t budget_bytes);

/*
 * To be called if every block will be recorded: makes the table use huge pages. Context: any thread; before init it
 * does nothing.
 */
void dp_live_blocks_crowd(void);

/*
 * Context of all that follow: hook. key is DELTAPROF_KEY(heap, ptr). insert returns false if there is no room near the
 * key's place, or if the key is 0 or ~0, which cannot be stored: nothing was inserted. If the key is there already, its
 * block was freed without a hook; if insert meets the old entry, it removes it and returns it in `stale` (objects 0:
 * none).
 */
bool dp_live_blocks_insert(uintptr_t key, const struct dp_live_block *entry, struct dp_live_block *stale);
/* Removes the next entry of a heap, from slot *at on (0 at first); false: there is none. */
bool dp_live_blocks_remove_next(uint32_t *at, unsigned heap, struct dp_live_block *entry);
bool dp_live_blocks_remove(uintptr_t key, struct dp_live_block *entry); /* Removes the entry. False: not there. */

/* Takes the entry out but reserves its slot: then either unclaim puts it back (never fails) or drop frees the slot. */
bool dp_live_blocks_claim(uintptr_t key, struct dp_live_block *entry, uint32_t *slot);
void dp_live_blocks_unclaim(uintptr_t key, uint32_t slot);
void dp_live_blocks_drop(uint32_t slot);

/* Prefetches the cache lines that an insert of this key needs, while a stack is walked. */
void dp_live_blocks_prefetch(uintptr_t key);

/*
 * Makes deltaprof_may_be_live return true for every address of [start, start + n_bytes). Works before init. Context:
 * one thread.
 */
void dp_live_blocks_mark(uintptr_t start, size_t n_bytes);

/* In a forked child: resets the cleaning of a thread that does not exist in it. Only stores. */
void dp_live_blocks_fork_child(void);
