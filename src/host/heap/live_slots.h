/* SPDX-License-Identifier: MIT */
/* host/heap/live_slots.h - the memory of the table of live blocks, and where a key may lie; for live_blocks.c, which
 * explains it, and live_scan.c.
 */
#pragma once

#include "base/atomic.h"
#include "base/hash.h"
#include "host/heap/live_blocks.h"

#include <deltaprof/heap.h>

#define DP_LIVE_SLOTS    8u   /* slots of a bucket */
#define DP_LIVE_BUCKETS  16u  /* buckets where a key may lie, besides one of those below */
#define DP_LIVE_FAR      256u /* of a byte: its keys have their buckets beyond the first two among these */
#define DP_LIVE_NEAR     16u  /* buckets of a sparse table that are filled first: with their births they are one page */
#define DP_LIVE_PATIENCE 16u  /* of so many searches in vain behind bytes with FAR, one cleans */
#define DP_LIVE_BUSY     (~(uint64_t)0)

struct dp_heap_live_slot {
    _Atomic uint64_t key;
    _Atomic uint64_t who; /* record, objects << 32 */
    _Atomic uint64_t bytes;
};

extern struct dp_live {
    _Atomic uint8_t *filter;
    _Atomic(struct dp_heap_live_slot *)
        slots;                       /* NULL before init, and with births; [INIT] the rest is set when it is not */
    struct dp_heap_live_slot *table; /* DP_LIVE_SLOTS a bucket: n_buckets, then n_near */
    uint64_t filter_mask;
    uint32_t n_buckets, n_near;               /* n_near: DP_LIVE_NEAR, or 0 */
    uint32_t n_dense;                         /* the first buckets, if they are homes and nothing else */
    uint32_t place_shift;                     /* from a filter byte's index to the number of its first slot */
    bool exact;                               /* births are in ns */
    uint64_t one_bucket;                      /* 2^64 / n_buckets, rounded up */
    _Atomic(struct dp_heap_live_slot *) aged; /* the slots, if births are kept; else NULL */
    _Atomic int64_t *births;                  /* of slot 0; that of the next slot stands before it */
    _Alignas(64) _Atomic uint32_t cleaning;   /* the fields above are only read */
    _Atomic uint32_t n_far_misses;            /* searches in vain behind a byte with FAR; relaxed: only counts */
} dp_live;

static inline struct dp_heap_live_slot *dp_heap_live_slot(size_t number)
{
    return &dp_live.table[number];
}

static inline size_t dp_heap_live_n_slots(void)
{
    return ((size_t)dp_live.n_buckets + dp_live.n_near) * DP_LIVE_SLOTS;
}

static inline _Atomic int64_t *dp_heap_live_birth(const struct dp_heap_live_slot *slot)
{
    return &dp_live.births[dp_live.table - slot];
}

static inline void dp_heap_live_read_value(const struct dp_heap_live_slot *slot, struct dp_heap_live_block *entry)
{
    uint64_t who = dp_load_relaxed(&slot->who);
    entry->record = (dp_record_id)who;
    entry->objects = (uint32_t)(who >> 32);
    entry->bytes = dp_load_relaxed(&slot->bytes);
}

/* Bits of a filter byte. */
enum { PRESENT = 1, SPILLED = 2, CLEANING = 4, FAR = 8, WATCHED = 128 };

/* byte: index in the filter; home: a bucket. */
struct dp_heap_live_index {
    uint32_t byte, home;
};

/* Bytes with the same place have the same home and the same first slot. */
static inline uint32_t place_of(uint32_t byte)
{
    return byte >> dp_live.place_shift;
}

static inline struct dp_heap_live_index index_of(uintptr_t key)
{
    uint32_t byte = (uint32_t)deltaprof_filter_index(key, dp_live.filter_mask);
    /* place / DP_LIVE_SLOTS % n_buckets by multiplication (Lemire, Kaser, Kurz: "Faster remainder by direct
     * computation") */
    uint64_t fraction = dp_live.one_bucket * (place_of(byte) / DP_LIVE_SLOTS);
    return (struct dp_heap_live_index){byte, (uint32_t)((unsigned __int128)fraction * dp_live.n_buckets >> 64)};
}

/* The bucket of a byte that is filled first; only if there are such buckets. */
static inline struct dp_heap_live_slot *near_bucket(uint32_t byte)
{
    _Static_assert(DP_LIVE_NEAR == 1u << 4, "a hash of four bits");
    return dp_heap_live_slot(((size_t)dp_live.n_buckets + (byte * 0x9E3779B9u >> 28)) * DP_LIVE_SLOTS);
}

static inline unsigned n_ways(void)
{
    return DP_LIVE_BUCKETS + (dp_live.n_near != 0);
}

/* Of the buckets of a byte with this value, the first that hold all its entries. */
static inline unsigned n_reached(uint8_t value)
{
    return value & (FAR | WATCHED) ? n_ways() : value & SPILLED ? 2 : 1;
}

/*
 * The bucket of this number of a byte, by a hash of its own: multiples of one step come back to the same few buckets,
 * if the step and the number of buckets have a factor in common.
 */
static inline struct dp_heap_live_slot *far_bucket(uint32_t byte, unsigned number)
{
    uint64_t hash = dp_hash_mix((uint64_t)byte << 16 | number);
    uint64_t at = dp_live.n_dense + ((hash >> 32) * (dp_live.n_buckets - dp_live.n_dense) >> 32);
    return dp_heap_live_slot(at * DP_LIVE_SLOTS);
}

/* The number of the i-th bucket of a key, of those beyond the first two. */
static inline unsigned far_number(uintptr_t key, unsigned i)
{
    _Static_assert((DP_LIVE_FAR & (DP_LIVE_FAR - 1)) == 0, "an odd step comes to all of them");
    uint64_t hash = dp_hash_mix(key);
    return ((unsigned)(hash >> 48) + i * ((unsigned)(hash >> 32) | 1)) % DP_LIVE_FAR;
}

/*
 * The slots of the i-th bucket for a key of this index: first the near one, if there is, then the home, then buckets
 * that hashes select. The first two are the same for all keys of the byte, so that a cleaner finds them. The others
 * depend on the key too: of blocks a page apart, few bytes have all.
 */
static inline struct dp_heap_live_slot *bucket_at(struct dp_heap_live_index index, uintptr_t key, unsigned i)
{
    if (i >= 2)
        return far_bucket(index.byte, far_number(key, i));
    if (dp_live.n_near && i-- == 0)
        return near_bucket(index.byte);
    return i ? far_bucket(index.byte, DP_LIVE_FAR) : dp_heap_live_slot((size_t)index.home * DP_LIVE_SLOTS);
}

/* The slot where a key of this index lies, unless it was in use. */
static inline struct dp_heap_live_slot *first_slot(struct dp_heap_live_index index)
{
    return dp_heap_live_slot((size_t)index.home * DP_LIVE_SLOTS + place_of(index.byte) % DP_LIVE_SLOTS);
}

/* The same of a table with births. Sampled blocks often begin a page: then the low bits of the byte are 0. */
static inline struct dp_heap_live_slot *first_aged_slot(struct dp_heap_live_index index)
{
    return dp_live.n_near ? near_bucket(index.byte) + (index.byte >> 8) % DP_LIVE_SLOTS : first_slot(index);
}

/* Whether a bucket holds an entry of this byte, or an unknown one (DP_LIVE_BUSY). */
static inline bool has_entry(const struct dp_heap_live_slot *bucket, uint32_t byte)
{
    for (unsigned k = 0; k < DP_LIVE_SLOTS; k++) {
        uint64_t key = dp_load_total(&bucket[k].key); /* [CLEAN] */
        if (key && (key == DP_LIVE_BUSY || index_of(key).byte == byte))
            return true;
    }
    return false;
}

/* The same of all buckets that a byte with this value names. */
static inline bool bucket_has(struct dp_heap_live_index index, uint8_t value)
{
    unsigned n = n_reached(value);
    if (has_entry(bucket_at(index, 0, 0), index.byte) || (n > 1 && has_entry(bucket_at(index, 0, 1), index.byte)))
        return true;
    for (unsigned i = 0; n > 2 && i < DP_LIVE_FAR; i++)
        if (has_entry(far_bucket(index.byte, i), index.byte))
            return true;
    return false;
}

static inline void prefetch_byte(uint32_t byte)
{
    __builtin_prefetch((const void *)&dp_live.filter[byte]);
}
