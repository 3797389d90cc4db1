/* SPDX-License-Identifier: MIT */
/* host/heap/waste.h - how much of what each record has in use is resident, swapped, zeros, or pins free memory. */
#pragma once

#include "host/report/delta.h"
#include "host/resident/free_chunks.h"

/*
 * The types resident_space, swapped_space, zero_space, pinned_space and idle_space. Values are scaled up as inuse_space
 * is. The last one is known only after dp_resident_idle_begin.
 */
enum {
    DP_HEAP_WASTE_RESIDENT,
    DP_HEAP_WASTE_SWAPPED,
    DP_HEAP_WASTE_ZERO,
    DP_HEAP_WASTE_PINNED,
    DP_HEAP_WASTE_IDLE,
    DP_HEAP_WASTE_VALUES
};

struct dp_heap_waste_row {
    uint32_t id, entry; /* of the row that it belongs to */
    int64_t values[DP_HEAP_WASTE_VALUES];
};

struct dp_heap_waste_rows {
    struct dp_heap_waste_row *at; /* by id and entry, as the rows are */
    size_t n, cap;
};

/*
 * Looks at the memory of all sampled blocks in use, and of mappings, and fills a row for each of `rows` that has memory
 * in use. The resident and the swapped part of a row are together at most what it has in use. *free: free memory that
 * the allocator holds. aged_ns: the time for which dp_heap_age_split has divided the rows by age; 0: they are not. At
 * most most_read_bytes are read to find zeros; *unread_bytes: the rest. Returns 0, or a negative errno: then nothing is
 * filled. may_ask: also asks jemalloc, which takes its locks; else it makes system calls only. Takes about 0.3 s for a
 * gigabyte in use.
 */
int dp_heap_waste_read(const struct dp_rows *rows, size_t stack_bytes, int64_t most_read_bytes, int64_t aged_ns,
                       bool may_ask, struct dp_heap_waste_rows *, struct dp_resident_free *free, int64_t *unread_bytes);
