/* SPDX-License-Identifier: MIT */
/*
 * host/heap/mappings.h - which address ranges the program has mapped, and the record of the code that mapped each.
 *
 * Unlike blocks, mappings are all counted, not sampled: there are few. A range may be unmapped in parts, mapped over,
 * or only be reserved (without access) until a later call gives access. Context of all but init: hook.
 */
#pragma once

#include "host/table/table.h"

#include <stdbool.h>

enum dp_heap_mapping_change {
    DP_MAPPING_ADD,     /* the range is mapped for `record`, and earlier mappings in it are gone */
    DP_MAPPING_RESERVE, /* the range is reserved; it counts for no record yet */
    DP_MAPPING_USE,     /* the reserved parts of the range count for `record` from now on */
    DP_MAPPING_REMOVE,  /* the range is unmapped */
    DP_MAPPING_LEAVE,   /* the range may soon be unmapped: what is in it now gets `record` as a mark */
    DP_MAPPING_GONE,    /* the parts of the range with that mark are unmapped */
    DP_MAPPING_STAY,    /* they are not */
};

/* most: how many ranges are kept. -ENOMEM: none. Context: init. */
int dp_heap_mappings_init(size_t most);

/*
 * Changes [start, end). Allocations are counted for the record, and frees for the records of the ranges that are gone.
 * If another thread is in this function, that thread makes the change soon; if too many changes wait, the change is
 * lost and counted as a loss.
 */
void dp_heap_mappings_change(enum dp_heap_mapping_change change, uintptr_t start, uintptr_t end, dp_record_id record);

/* How many ranges can be kept; 0: mappings are not recorded. */
size_t dp_heap_mappings_most(void);

/* Whether a part of [start, end) is reserved. False also while another thread changes the ranges. */
bool dp_heap_mappings_are_reserved(uintptr_t start, uintptr_t end);

/*
 * Copies the ranges that count for a record, in the order of their addresses, at most n_most. Returns
 * their number; 0 also if another thread changes the ranges. Context: reports.
 */
struct dp_heap_mapped_range {
    uintptr_t start, end;
    dp_record_id record;
};
size_t dp_heap_mappings_copy(struct dp_heap_mapped_range *to, size_t n_most);

/* In a forked child: ranges that were being changed at the fork are forgotten. Only stores. */
void dp_heap_mappings_fork_child(void);
