/* SPDX-License-Identifier: MIT */
/*
 * record/live.h - the sampled blocks that are in use: key -> {record, objects, bytes}; and the filter that lets free
 * pass by with one load.
 */
#pragma once

#include "record/table.h"

#include <stdbool.h>

struct dp_live_entry {
    dp_record_id record;
    uint32_t objects; /* the weight */
    uint64_t bytes;   /* weight * size */
};

/* Context: init. */
int dp_live_init(size_t budget_bytes);

/* All: context hook. key is DELTAPROF_KEY(heap, ptr). */
bool dp_live_insert(uintptr_t key, const struct dp_live_entry *entry); /* false: full, nothing inserted */
bool dp_live_take(uintptr_t key, struct dp_live_entry *entry);         /* false: not there. Removes it. */

/* Takes the entry but keeps its slot: then either put it back (never fails) or drop the slot. */
bool dp_live_claim(uintptr_t key, struct dp_live_entry *entry, uint32_t *slot);
void dp_live_unclaim(uintptr_t key, const struct dp_live_entry *entry, uint32_t slot);
void dp_live_drop(uintptr_t key, uint32_t slot);

/* Makes deltaprof_maybe say true for every address of [start, start + n_bytes): the bootstrap arena. Context: init. */
void dp_live_watch(uintptr_t start, size_t n_bytes);

uint64_t dp_live_count(void);
