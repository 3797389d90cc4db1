/* SPDX-License-Identifier: MIT */
/*
 * record/live_blocks.h - the sampled blocks that are in use: key -> {record, objects, bytes}; and the filter that lets
 * free pass by with one load.
 */
#pragma once

#include "record/table.h"

#include <stdbool.h>

struct dp_live_block {
    dp_record_id record;
    uint32_t objects; /* the weight */
    uint64_t bytes;   /* weight * size */
};

/* -ENOMEM: nothing is mapped that could not be. Context: init. */
int dp_live_blocks_init(size_t budget_bytes);

/* Every block will be in here: takes huge pages. Context: any thread; before init nothing happens. */
void dp_live_blocks_crowd(void);

/*
 * What follows: context hook. key is DELTAPROF_KEY(heap, ptr). insert gives false when there is no room near the key's
 * place, or for a key that cannot be kept (0 and ~0): nothing was inserted. A key that is there already was freed
 * behind our back: its old entry, if insert comes by it on its way, is handed out in `stale` (objects 0: none was).
 */
bool dp_live_blocks_insert(uintptr_t key, const struct dp_live_block *entry, struct dp_live_block *stale);
/* Removes the next entry of a heap, from slot *at on (0 at first); false: there is none. */
bool dp_live_blocks_remove_next(uint32_t *at, unsigned heap, struct dp_live_block *entry);
bool dp_live_blocks_remove(uintptr_t key, struct dp_live_block *entry); /* false: not there. Removes it. */

/* Takes the entry but keeps its slot: then either put it back (never fails) or drop the slot. */
bool dp_live_blocks_claim(uintptr_t key, struct dp_live_block *entry, uint32_t *slot);
void dp_live_blocks_unclaim(uintptr_t key, uint32_t slot);
void dp_live_blocks_drop(uint32_t slot);

/* Asks for the cache lines that an insert of this key will want, while a stack is walked. */
void dp_live_blocks_prefetch(uintptr_t key);

/* Makes deltaprof_may_be_live say true for every address of [start, start + n_bytes). Works before init. Context: one
 * thread.
 */
void dp_live_blocks_mark(uintptr_t start, size_t n_bytes);

/* In a forked child: a sibling may have been cleaning. Only stores. */
void dp_live_blocks_fork_child(void);
