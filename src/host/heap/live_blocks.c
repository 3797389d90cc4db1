/* SPDX-License-Identifier: MIT */
/*
 * host/heap/live_blocks.c - the table of sampled blocks in use, and its filter.
 *
 * Layout. A filter byte stands for 16 bytes of address space (for many such, by hash). A key has sixteen buckets of
 * eight slots: a home bucket, and fifteen others by hash, for entries that do not fit in the home; and in the home the
 * slot to look at first. The byte's index alone determines the home, the second bucket, and 256 others, of which each
 * key of the byte has fourteen. Homes lie in the order of addresses: 128 bytes of address space share a home, with one
 * slot for every 16 bytes, and the next 128 bytes have the next home, cyclically. So blocks that are near in the heap
 * are near here. Blocks within 16 MiB of heap, or within as many bytes as the table covers, never take each other's
 * slot, and nearly every search is one compare. Key and value stand side by side: an entry is in one cache line,
 * seldom two. Entries never move, so no search can miss one. A removed entry leaves an empty slot and no tombstone.
 * Every search ends after 8 slots, after 16 if the byte has SPILLED, or after all buckets if it has FAR. With sixteen
 * buckets no block is refused before some 85 of 100 slots are taken (58 with five). Blocks a page apart share one byte
 * in 256, yet none is refused before 75. When all slots are taken, an insert looks at 128.
 *
 * If every block is recorded, frees wait for cache misses in this table, which is half again as large as the heap. Huge
 * pages save the misses in page tables (redis under SET, 16 at a time: the extra cost of a request falls from 1,230 to
 * 984 ns). The huge pages are then nearly full, because homes lie in a row.
 *
 *     key word:     0 --CAS--> DP_LIVE_BUSY --[ENTRY]--> key --take [ENTRY]--> 0
 *                               a value is being written
 *                   key --claim--> DP_LIVE_BUSY --unclaim [ENTRY]--> key, or drop [ENTRY]--> 0
 *     filter byte:  0 --insert--> PRESENT (| SPILLED | FAR) --miss--> | CLEANING --> 0
 *                                                                                or back, if something was found
 *                   WATCHED: for ever
 *
 * 1. A value is written by the thread that turned an empty slot DP_LIVE_BUSY, and read by the thread that frees
 *    the block. A block is freed once, so only one thread takes an entry; it needs no atomic exchange and does not
 *    wait for the cache line. [ENTRY]: a key is stored with release and loaded with acquire, and so is the 0 after
 *    it. Else a free could read the value of the slot's last entry, or a new value could be written while the free
 *    still reads. If a program frees a block in two threads at once, it is counted twice, or the slot's next entry
 *    is lost; readers of the counters still see nothing below 0 (table.c).
 * 2. While an entry's key is in the set, from before insert returns until it is taken, its filter byte is not 0.
 *    It has SPILLED if the entry lies outside its first bucket, and FAR if it lies outside the first two. A free
 *    in another thread comes after insert, because the program had to synchronize to pass the pointer; so the
 *    plain load of deltaprof_may_be_live suffices.
 * 3. The byte is cleared lazily, by a search that found nothing there: removing an entry is one store and does not
 *    change the byte, so the next insert near it finds it set. The cleaner marks the byte CLEANING (which is not
 *    0), looks at the buckets that the byte's bits name, and turns exactly that value to 0 if they hold nothing of
 *    this byte. The inserter turns its slot DP_LIVE_BUSY first and looks at the byte after; unless it sees
 *    PRESENT, all bits that it needs and not CLEANING, it writes the byte, which makes the cleaner's last CAS
 *    fail. [CLEAN]: each side writes one word and then reads the other, in the total order (seq_cst). With a
 *    weaker order the cleaner could see the slot still empty and the inserter the byte still PRESENT. The entry
 *    would then stand behind a byte that is 0: its free would not be noticed, and in-use would stay too high for
 *    ever. A byte with FAR names 2,000 slots, so only one of DP_LIVE_PATIENCE searches there cleans. Only one
 *    thread cleans at a time (`cleaning` is tried once and never waited for): with two, the first could clear the
 *    byte by an old observation while the second has just found a new entry. The word holds the time of the claim,
 *    because a longjmp out of a signal handler may leave a claim behind: after a minute another thread takes it
 *    over, and a cleaner clears only while it still has the claim.
 * 4. A DP_LIVE_BUSY slot may belong to any byte: a cleaner does not clear a byte with such a slot.
 *
 * Rare samples. At the distances above each sample would write to a page of its own, and another for its birth. So 4
 * KiB of address space share a home then, and the homes are the first n_dense buckets, where no other bucket lies
 * (git log at 512k: 150 page faults of ours, not 1,300). If the rate is lowered later, the homes are full and most
 * entries are far: slower, but none is refused before the table is nearly full. And such a table has DP_LIVE_NEAR
 * more buckets, which lie in one page with their births. One of those is the first bucket of each byte, before its
 * home: a forked worker with a few samples writes to one page. All that is said of the home holds for that bucket
 * then.
 *
 * Births. A second array has the birth of each slot's entry, if births are kept. Then `slots` stays NULL, so that all
 * fast paths fail at their first test and go on in functions that use `aged` instead: without births they cost nothing.
 *
 * Signal handlers skip DP_LIVE_BUSY slots of the code that they interrupted. A forked child keeps a DP_LIVE_BUSY slot
 * for each other thread that was in here at the fork.
 */
#include "host/heap/live_blocks.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "host/heap/live_slots.h"

#include <deltaprof/heap.h>
#include <errno.h>

#define MIN_BITS 12 /* smallest filter: a page */

enum { NEAR_EVERY = 64 }; /* buckets that are whole pages together */
_Static_assert(NEAR_EVERY *DP_LIVE_SLOTS * sizeof(struct dp_heap_live_slot) % DP_PAGE_LEAST == 0, "whole pages");
_Static_assert(DP_LIVE_NEAR *DP_LIVE_SLOTS *(sizeof(struct dp_heap_live_slot) + 8) == DP_PAGE_LEAST,
               "with births a page");

enum { RATE_RARE = 64 << 10, PLACE_SHIFT_RARE = 5 };

/* Claims of `cleaning` are times in units of 2^30 ns, plus 1; 0: idle. */
enum { CLAIM_SHIFT = 30, CLAIM_ABANDONED = 60 };

/* Used before init, and if the profiler never starts: holds only watched blocks. */
static DP_LARGE _Atomic uint8_t first_filter[1 << MIN_BITS];
struct deltaprof_filter deltaprof_filter = {sizeof first_filter - 1, (const uint8_t *)first_filter};

struct dp_live dp_live = {.filter = first_filter, .filter_mask = sizeof first_filter - 1};

static struct {
    uintptr_t start, end;
} watched;

bool dp_heap_live_blocks_has_births(void)
{
    return dp_load_acquire(&dp_live.aged) != NULL; /* [INIT] */
}

int dp_heap_live_blocks_init(size_t budget_bytes, int64_t rate, enum dp_heap_births births)
{
    size_t slot_bytes = sizeof(struct dp_heap_live_slot) + (births ? sizeof *dp_live.births : 0);
    /* The filter gets about an eighth, a power of two: at least two bytes per slot, most of them 0. */
    unsigned filter_bits = MIN_BITS;
    while (filter_bits < 32 && (size_t)16 << filter_bits <= budget_bytes)
        filter_bits++;
    size_t n_buckets = (budget_bytes - ((size_t)1 << filter_bits)) / (DP_LIVE_SLOTS * slot_bytes);
    if (budget_bytes < (size_t)2 << MIN_BITS || n_buckets < 2 * DP_LIVE_BUCKETS)
        return -ENOMEM;
    if (n_buckets > (uint32_t)-1 / DP_LIVE_SLOTS)
        n_buckets = (uint32_t)-1 / DP_LIVE_SLOTS;
    /* So many that the near buckets begin a page. */
    uint32_t n_near = rate >= RATE_RARE && births == DP_BIRTHS_COARSE && n_buckets >= 2 * NEAR_EVERY ? DP_LIVE_NEAR : 0;
    if (n_near)
        n_buckets = (n_buckets - n_near) / NEAR_EVERY * NEAR_EVERY;
    size_t n_slots = (n_buckets + n_near) * DP_LIVE_SLOTS;
    struct dp_heap_live_slot *slots = dp_mem_table(n_slots * slot_bytes);
    _Atomic uint8_t *filter = dp_mem_table((size_t)1 << filter_bits);
    if (!slots || !filter)
        return -ENOMEM;
    dp_live.table = slots;
    dp_live.births = births ? (_Atomic int64_t *)(slots + n_slots) + n_slots - 1 : NULL;
    dp_live.n_near = n_near;
    dp_live.exact = births == DP_BIRTHS_EXACT;
    dp_live.filter = filter;
    dp_live.filter_mask = ((uint64_t)1 << filter_bits) - 1;
    dp_live.place_shift = rate >= RATE_RARE ? PLACE_SHIFT_RARE : 0;
    uint32_t n_homes = (uint32_t)(dp_live.filter_mask >> dp_live.place_shift) / DP_LIVE_SLOTS + 1;
    dp_live.n_dense = n_homes < n_buckets / 2 ? n_homes : 0;
    dp_live.n_buckets = (uint32_t)n_buckets;
    dp_live.one_bucket = UINT64_MAX / n_buckets + 1;
    /* A free may read the old mask and then the new table: so watched blocks are entered at the old index too. */
    for (size_t i = 0; i < sizeof first_filter; i++)
        if (dp_load_relaxed(&first_filter[i]))
            dp_store_relaxed(&filter[i], WATCHED);
    dp_heap_live_blocks_mark(watched.start, watched.end - watched.start);
    dp_store_release(births ? &dp_live.aged : &dp_live.slots, slots); /* [INIT] */
    /* [FILTER]: deltaprof_may_be_live acquires the mask; with the new mask it must not find the old, shorter table. */
    dp_store_release((const uint8_t *_Atomic *)&deltaprof_filter.bytes, (const uint8_t *)filter);
    dp_store_release((_Atomic uint64_t *)&deltaprof_filter.mask, dp_live.filter_mask);
    return 0;
}

void dp_heap_live_blocks_raise_density(void)
{
    if (!dp_load_acquire(&dp_live.slots) && !dp_heap_live_blocks_has_births()) /* [INIT] */
        return;
    dp_mem_huge(dp_heap_live_slot(0), (size_t)dp_live.n_buckets * DP_LIVE_SLOTS * sizeof(struct dp_heap_live_slot));
    dp_mem_huge((void *)dp_live.filter, (size_t)dp_live.filter_mask + 1);
}

void dp_heap_live_blocks_mark(uintptr_t start, size_t n_bytes)
{
    if (!n_bytes)
        return;
    if (!watched.end)
        watched.start = start;
    watched.start = start < watched.start ? start : watched.start;
    watched.end = start + n_bytes > watched.end ? start + n_bytes : watched.end;
    for (uintptr_t at = start & ~(uintptr_t)15; at < start + n_bytes; at += 16)
        dp_store_relaxed(&dp_live.filter[deltaprof_filter_index(at, dp_live.filter_mask)], WATCHED);
}

/* Sets the filter byte of an entry whose slot is DP_LIVE_BUSY: the bits that are wanted, and not CLEANING. */
static void show(uint32_t byte, uint8_t wanted)
{
    _Atomic uint8_t *at = &dp_live.filter[byte];
    uint8_t seen = dp_load_total(at); /* [CLEAN] */
    if ((seen & WATCHED) || (seen & (wanted | CLEANING)) == wanted)
        return;
    if (!dp_cas_total(at, &seen, (uint8_t)((seen & (SPILLED | FAR)) | wanted)) && !(seen & WATCHED)) /* [CLEAN] */
        dp_swap_total(at, (uint8_t)(PRESENT | SPILLED | FAR)); /* [CLEAN] sets too many bits instead of looping */
}

/* After a search that found nothing: clears the byte if no entry needs it. Most often one does, in the home. */
static void clean(struct dp_heap_live_index index)
{
    _Atomic uint8_t *at = &dp_live.filter[index.byte];
    uint8_t seen = dp_load_relaxed(at);
    if (!seen || (seen & WATCHED) || bucket_has(index, PRESENT))
        return;
    if ((seen & FAR) && dp_add_relaxed(&dp_live.n_far_misses, 1) % DP_LIVE_PATIENCE)
        return;
    uint32_t mine = (uint32_t)(dp_clock_coarse_ns() >> CLAIM_SHIFT) + 1, claim = dp_load_relaxed(&dp_live.cleaning);
    if ((claim && mine - claim < CLAIM_ABANDONED) || !dp_cas_acquire(&dp_live.cleaning, &claim, mine))
        return;
    uint8_t marked = seen | CLEANING;
    if (dp_cas_total(at, &seen, marked)) { /* [CLEAN] */
        uint8_t then = bucket_has(index, marked) ? marked & ~CLEANING : 0;
        if (dp_load_relaxed(&dp_live.cleaning) == mine)
            dp_cas_total(at, &marked, then);
    }
    dp_cas_publish(&dp_live.cleaning, &mine, 0);
}

/* Finds the slot of a key that is not in its first slot. NULL: not there. */
static __attribute__((noinline)) struct dp_heap_live_slot *find_elsewhere(struct dp_heap_live_index index,
                                                                          uintptr_t key)
{
    unsigned n = n_reached(dp_load_relaxed(&dp_live.filter[index.byte]));
    for (unsigned i = 0; i < n; i++) {
        struct dp_heap_live_slot *bucket = bucket_at(index, key, i);
        for (unsigned k = 0; k < DP_LIVE_SLOTS; k++)
            if (dp_load_acquire(&bucket[k].key) == key) /* [ENTRY] */
                return &bucket[k];
    }
    clean(index);
    return NULL;
}

/* slots: dp_live.slots or dp_live.aged. */
static inline struct dp_heap_live_slot *find(const struct dp_heap_live_slot *slots, uintptr_t key, bool is_aged)
{
    if (!slots || !key || key == DP_LIVE_BUSY)
        return NULL;
    struct dp_heap_live_index index = index_of(key);
    struct dp_heap_live_slot *first = is_aged ? first_aged_slot(index) : first_slot(index);
    if (__builtin_expect(dp_load_acquire(&first->key) == key, 1)) /* [ENTRY] */
        return first;
    return find_elsewhere(index, key);
}

static __attribute__((noinline)) struct dp_heap_live_slot *find_aged(uintptr_t key, struct dp_heap_live_block *entry)
{
    struct dp_heap_live_slot *slot = find(dp_load_acquire(&dp_live.aged), key, true); /* [INIT] */
    if (slot)
        entry->born_ns = dp_load_relaxed(dp_heap_live_birth(slot));
    return slot;
}

bool dp_heap_live_blocks_claim(uintptr_t key, struct dp_heap_live_block *entry, uint32_t *number)
{
    struct dp_heap_live_slot *slot = find(dp_load_acquire(&dp_live.slots), key, false); /* [INIT] */
    if (!slot && !(slot = find_aged(key, entry)))
        return false;
    dp_heap_live_read_value(slot, entry);
    dp_store_relaxed(&slot->key, DP_LIVE_BUSY);
    *number = (uint32_t)(slot - dp_heap_live_slot(0));
    return true;
}

void dp_heap_live_blocks_unclaim(uintptr_t key, uint32_t number)
{
    dp_store_release(&dp_heap_live_slot(number)->key, key); /* [ENTRY] */
}

void dp_heap_live_blocks_drop(uint32_t number)
{
    dp_store_release(&dp_heap_live_slot(number)->key, 0); /* [ENTRY] */
}

static inline bool empty_slot(struct dp_heap_live_slot *slot, struct dp_heap_live_block *entry)
{
    dp_heap_live_read_value(slot, entry);
    dp_store_release(&slot->key, 0); /* [ENTRY] */
    return true;
}

static __attribute__((noinline)) bool remove_elsewhere(uintptr_t key, struct dp_heap_live_block *entry)
{
    struct dp_heap_live_slot *slot = find(dp_load_acquire(&dp_live.slots), key, false); /* [INIT] */
    if (!slot && !(slot = find_aged(key, entry)))
        return false;
    return empty_slot(slot, entry);
}

/* The usual case calls nothing, so it needs no stack. Allocators hand out next what was freed last. */
bool dp_heap_live_blocks_remove(uintptr_t key, struct dp_heap_live_block *entry)
{
    if (__builtin_expect(dp_load_acquire(&dp_live.slots) && key && key != DP_LIVE_BUSY, 1)) { /* [INIT] */
        struct dp_heap_live_index index = index_of(key);
        struct dp_heap_live_slot *first = first_slot(index);
        prefetch_byte(index.byte);                                    /* for the next insert */
        if (__builtin_expect(dp_load_acquire(&first->key) == key, 1)) /* [ENTRY] */
            return empty_slot(first, entry);
    }
    return remove_elsewhere(key, entry);
}

/* Puts the entry into this slot, if it is empty. born_ns 0: no births are kept. */
static inline bool fill_slot(struct dp_heap_live_slot *slot, uintptr_t key, const struct dp_heap_live_block *entry,
                             int64_t born_ns)
{
    uint64_t expected = 0;
    if (__builtin_expect(!dp_cas_total(&slot->key, &expected, DP_LIVE_BUSY), 0)) /* [ENTRY] [CLEAN] */
        return false;
    dp_store_relaxed(&slot->who, entry->record | (uint64_t)entry->objects << 32);
    dp_store_relaxed(&slot->bytes, entry->bytes);
    if (born_ns)
        dp_store_relaxed(dp_heap_live_birth(slot), born_ns);
    dp_store_release(&slot->key, key); /* [ENTRY] */
    return true;
}

/* Inserts if the first slot is in use, perhaps by an old entry of this key, whose block was freed without a hook. */
static __attribute__((noinline)) bool insert_elsewhere(struct dp_heap_live_index index, uintptr_t key,
                                                       const struct dp_heap_live_block *entry,
                                                       struct dp_heap_live_block *stale, int64_t born_ns)
{
    for (unsigned i = 0; i < n_ways(); i++) {
        struct dp_heap_live_slot *bucket = bucket_at(index, key, i);
        uint32_t empty = 0, same = 0; /* bits of slots */
        for (unsigned k = 0; k < DP_LIVE_SLOTS; k++) {
            uint64_t seen = dp_load_acquire(&bucket[k].key); /* [ENTRY] */
            empty |= (uint32_t)!seen << k;
            same |= (uint32_t)(seen == key) << k;
        }
        if (__builtin_expect(same != 0, 0)) {
            struct dp_heap_live_slot *old = &bucket[__builtin_ctz(same)];
            dp_heap_live_read_value(old, stale);
            stale->born_ns = 0;
            dp_store_release(&old->key, 0); /* [ENTRY] */
            empty |= same;
        }
        for (; empty; empty &= empty - 1)
            if (fill_slot(&bucket[__builtin_ctz(empty)], key, entry, born_ns)) {
                show(index.byte, i > 1 ? PRESENT | SPILLED | FAR : i ? PRESENT | SPILLED : PRESENT);
                return true;
            }
    }
    return false;
}

static inline struct dp_heap_live_place place_at(uintptr_t key)
{
    struct dp_heap_live_index index = index_of(key);
    return (struct dp_heap_live_place){first_slot(index), index.byte};
}

bool dp_heap_live_blocks_insert_at(struct dp_heap_live_place place, uintptr_t key,
                                   const struct dp_heap_live_block *entry, struct dp_heap_live_block *stale)
{
    stale->objects = 0;
    if (__builtin_expect(!place.slot, 0))
        return dp_heap_live_blocks_insert(key, entry, stale);
    if (!key || key == DP_LIVE_BUSY)
        return false;
    if (__builtin_expect(!fill_slot(place.slot, key, entry, 0), 0))
        return insert_elsewhere(index_of(key), key, entry, stale, 0);
    show(place.byte, PRESENT);
    return true;
}

static __attribute__((noinline)) bool insert_aged(uintptr_t key, const struct dp_heap_live_block *entry,
                                                  struct dp_heap_live_block *stale)
{
    if (!dp_heap_live_blocks_has_births() || !key || key == DP_LIVE_BUSY)
        return false;
    struct dp_heap_live_index index = index_of(key);
    int64_t now_ns = dp_live.exact ? dp_clock_ns() : dp_clock_coarse_ns();
    if (!fill_slot(first_aged_slot(index), key, entry, now_ns))
        return insert_elsewhere(index, key, entry, stale, now_ns);
    show(index.byte, PRESENT);
    return true;
}

bool dp_heap_live_blocks_insert(uintptr_t key, const struct dp_heap_live_block *entry, struct dp_heap_live_block *stale)
{
    stale->objects = 0;
    if (!dp_load_acquire(&dp_live.slots)) /* [INIT] */
        return insert_aged(key, entry, stale);
    return dp_heap_live_blocks_insert_at(place_at(key), key, entry, stale);
}

struct dp_heap_live_place dp_heap_live_blocks_prefetch(uintptr_t key)
{
    if (!dp_load_acquire(&dp_live.slots)) /* [INIT] */
        return (struct dp_heap_live_place){NULL, 0};
    struct dp_heap_live_place place = place_at(key);
    __builtin_prefetch(place.slot, 1);
    __builtin_prefetch(&place.slot->bytes, 1); /* the next line, for two slots of a bucket */
    prefetch_byte(place.byte);
    return place;
}

DP_IN_CHILD void dp_heap_live_blocks_fork_child(void)
{
    dp_store_relaxed(&dp_live.cleaning, 0);
}
