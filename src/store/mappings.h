/* SPDX-License-Identifier: MIT */
/*
 * store/mappings.h - which address ranges the program has mapped, and the record of the code that mapped each.
 *
 * Unlike blocks, mappings are all counted, not sampled: there are few. A range may be unmapped in parts, mapped over,
 * or only be reserved (without access) until a later call gives access. Context of all but init: hook.
 */
#pragma once

#include "store/table.h"

#include <stdbool.h>

enum dp_mapping_change {
    DP_MAPPING_ADD,     /* the range is mapped for `record`; what was known of it before is gone */
    DP_MAPPING_RESERVE, /* the range is reserved; it counts for no record yet */
    DP_MAPPING_USE,     /* what is reserved within the range is `record`'s from now on */
    DP_MAPPING_REMOVE,  /* the range is unmapped */
};

/* most: how many ranges are kept. -ENOMEM: none. Context: init. */
int dp_mappings_init(size_t most);

/*
 * Changes [start, end). Allocations are counted for the record, and frees for the records of what is gone. If another
 * thread is in here, that thread makes the change, soon; if too many are waiting, the change is lost, and counted.
 */
void dp_mappings_change(enum dp_mapping_change change, uintptr_t start, uintptr_t end, dp_record_id record);

/* How many ranges can be kept; 0: mappings are not recorded. */
size_t dp_mappings_most(void);

/* Whether a part of [start, end) is reserved. False too while another thread is in here. */
bool dp_mappings_are_reserved(uintptr_t start, uintptr_t end);

/*
 * Copies the ranges that count for a record, in the order of their addresses, at most n_most. Their number; 0 too if
 * another thread is in here. Context: reports.
 */
struct dp_mapped_range {
    uintptr_t start, end;
};
size_t dp_mappings_copy(struct dp_mapped_range *to, size_t n_most);

/* In a forked child: ranges that were being changed at the fork are forgotten. Only stores. */
void dp_mappings_fork_child(void);
