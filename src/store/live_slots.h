/* SPDX-License-Identifier: MIT */
/* store/live_slots.h - the memory of the table of live blocks; for live_blocks.c, which explains it, and live_scan.c.
 */
#pragma once

#include "base/atomic.h"
#include "store/live_blocks.h"

#define DP_LIVE_SLOTS   8u  /* slots of a bucket, and filter bytes with the same home */
#define DP_LIVE_BUCKETS 5u  /* buckets where a key may lie, besides one of those below */
#define DP_LIVE_NEAR    16u /* buckets of a sparse table that are filled first: with their births they are one page */
#define DP_LIVE_BUSY    (~(uint64_t)0)

struct dp_live_slot {
    _Atomic uint64_t key;
    _Atomic uint64_t who; /* record, objects << 32 */
    _Atomic uint64_t bytes;
};

extern struct dp_live {
    _Atomic uint8_t *filter;
    _Atomic(struct dp_live_slot *) slots; /* NULL before init, and with births; [INIT] the rest is set when it is not */
    struct dp_live_slot *table;           /* DP_LIVE_SLOTS a bucket: n_buckets, then n_near */
    uint64_t filter_mask;
    uint32_t n_buckets, n_near;             /* n_near: DP_LIVE_NEAR, or 0 */
    bool exact;                             /* births are in ns */
    uint64_t one_bucket;                    /* 2^64 / n_buckets, rounded up */
    _Atomic(struct dp_live_slot *) aged;    /* the slots, if births are kept; else NULL */
    _Atomic int64_t *births;                /* of slot 0; that of the next slot stands before it */
    _Alignas(64) _Atomic uint32_t cleaning; /* the fields above are only read */
} dp_live;

static inline struct dp_live_slot *dp_live_slot(size_t number)
{
    return &dp_live.table[number];
}

static inline size_t dp_live_n_slots(void)
{
    return ((size_t)dp_live.n_buckets + dp_live.n_near) * DP_LIVE_SLOTS;
}

static inline _Atomic int64_t *dp_live_birth(const struct dp_live_slot *slot)
{
    return &dp_live.births[dp_live.table - slot];
}

static inline void dp_live_read_value(const struct dp_live_slot *slot, struct dp_live_block *entry)
{
    uint64_t who = dp_load_relaxed(&slot->who);
    entry->record = (dp_record_id)who;
    entry->objects = (uint32_t)(who >> 32);
    entry->bytes = dp_load_relaxed(&slot->bytes);
}
