/* SPDX-License-Identifier: MIT */
/* host/table/table_state.h - the state of the tables, for table.c, which explains it, and shared_tables.c. */
#pragma once

#include "host/shared/table_file.h"
#include "host/table/growth.h"
#include "host/table/table.h"

struct dp_table_counters {
    _Atomic int64_t n, v, free_n, free_v;
};
_Static_assert(sizeof(struct dp_table_counters) == 32, "two records a cache line");

struct dp_table_of_kind {
    _Atomic uint32_t *index;
    uint32_t index_mask;
    uint32_t id_mask; /* low bits of an index word */
    struct dp_record *records;
    struct dp_table_counters *counters;
    struct dp_table_base *base;
    struct dp_shared_array *shared_records, *shared_counters, *shared_base;
    struct dp_table_growth ids;
    _Atomic bool is_full; /* an event was added to record 0; relaxed */
    bool has_base;        /* an entry of base is not zero */
};

extern struct dp_table_of_kind dp_table_kinds[DP_KIND_TABLES] DP_INTERNAL;

/* n has the count below this bit (14 years of 10^7 a second), and above it 1 + the stripes' number */
#define DP_STRIPES_SHIFT 52

extern struct dp_table_stripes {
    struct dp_table_counters *at; /* by shard, then by number: a thread's stripes lie together */
    uint32_t cap;
    uint32_t next; /* under promoting */
    struct dp_shared_array *shared;
    _Alignas(64) _Atomic uint32_t promoting;
} dp_table_stripes DP_INTERNAL;

/* The frames of the stacks of all records of all kinds. */
extern struct dp_table_stacks {
    dp_frame_id *frames;
    struct dp_shared_array *shared;
    struct dp_table_growth growth;
} dp_table_stacks DP_INTERNAL;
