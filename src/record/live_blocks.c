/* SPDX-License-Identifier: MIT */
/*
 * record/live_blocks.c - the table of sampled blocks in use, and its filter.
 *
 * Layout. A filter byte stands for 16 bytes of address space (for many such, by hash). The byte's index alone
 * determines five buckets of eight slots: a home bucket, and four others, far from it and from each other, for entries
 * that do not fit in the home; and in each bucket the slot to look at first. Homes lie in the order of addresses: 128
 * bytes of address space share a home, with one slot for every 16 bytes, and the next 128 bytes have the next home,
 * cyclically. So blocks that are near in the heap are near here. Blocks within 16 MiB of heap, or within as many bytes
 * as the table covers, never take each other's slot, and nearly every search is one compare. Key and value stand side
 * by side: an entry is in one cache line, seldom two. Entries never move, so no search can miss one. A removed entry
 * leaves an empty slot and no tombstone. Every search ends after 8 slots, or after 40 if the byte has SPILLED.
 *
 * If every block is recorded, frees wait for cache misses in this table, which is half again as large as the heap. Huge
 * pages save the misses in page tables (redis under SET, 16 at a time: the extra cost of a request falls from 1,230 to
 * 984 ns). The huge pages are then nearly full, because homes lie in a row.
 *
 *     key word:     0 --CAS--> BUSY --[ENTRY]--> key --take [ENTRY]--> 0
 *                               a value is being written
 *                                                key --claim--> BUSY --unclaim [ENTRY]--> key, or drop [ENTRY]--> 0
 *     filter byte:  0 --insert--> PRESENT (| SPILLED) --miss--> | CLEANING --> 0, or back if something was found
 *                   WATCHED: for ever
 *
 * 1. A value is written by the thread that turned an empty slot BUSY, and read by the thread that frees the block. A
 *    block is freed once, so only one thread takes an entry; it needs no atomic exchange and does not wait for the
 *    cache line. [ENTRY]: a key is stored with release and loaded with acquire, and so is the 0 after it. Else a free
 *    could read the value of the slot's last entry, or a new value could be written while the free still reads. If a
 *    program frees a block in two threads at once, it is counted twice, or the slot's next entry is lost; readers of
 *    the counters still see nothing below 0 (table.c).
 * 2. While an entry's key is in the set, from before insert returns until it is taken, its filter byte is not 0, and
 *    has SPILLED if the entry lies outside its home bucket. A free in another thread comes after insert, because the
 *    program had to synchronize to pass the pointer; so the plain load of deltaprof_may_be_live suffices.
 * 3. The byte is cleared lazily, by a search that found nothing there: removing an entry is one store and does not
 *    change the byte, so the next insert near it finds it set. The cleaner marks the byte CLEANING (which is not 0),
 *    looks at the five buckets, and turns exactly that value to 0 if they hold nothing of this byte. The inserter turns
 *    its slot BUSY first and looks at the byte after; unless it sees PRESENT and not CLEANING it writes the byte, which
 *    makes the cleaner's last CAS fail. [CLEAN]: each side writes one word and then reads the other, in the total order
 *    (seq_cst). With a weaker order the cleaner could see the slot still empty and the inserter the byte still PRESENT.
 *    The entry would then stand behind a byte that is 0: its free would not be noticed, and in-use would stay too high
 *    for ever. Only one thread cleans at a time (`cleaning` is tried once and never waited for): with two, the first
 *    could clear the byte by an old observation while the second has just found a new entry. The word holds the time of
 *    the claim, because a longjmp out of a signal handler may leave a claim behind: after a minute another thread takes
 *    it over, and a cleaner clears only while it still has the claim.
 * 4. A BUSY slot may belong to any byte: a cleaner does not clear a byte with such a slot.
 *
 * Signal handlers skip BUSY slots of the code that they interrupted. A forked child keeps a BUSY slot for each other
 * thread that was in here at the fork.
 */
#include "record/live_blocks.h"

#include "base/clock.h"
#include "base/mem.h"

#include <deltaprof/hooks.h>
#include <errno.h>

#define SLOTS    8u /* slots of a bucket, and filter bytes with the same home */
#define BUCKETS  5u /* buckets where a key may lie */
#define BUSY     (~(uint64_t)0)
#define MIN_BITS 12 /* smallest filter: a page */

enum { PRESENT = 1, SPILLED = 2, CLEANING = 4, WATCHED = 128 };

/* Claims of `cleaning` are times in units of 2^30 ns, plus 1; 0: idle. */
enum { CLAIM_SHIFT = 30, CLAIM_ABANDONED = 60 };

struct slot {
    _Atomic uint64_t key;
    _Atomic uint64_t who; /* record, objects << 32 */
    _Atomic uint64_t bytes;
};

/* Used before init, and if the profiler never starts: holds only watched blocks. */
static _Atomic uint8_t first_filter[1 << MIN_BITS];
struct deltaprof_filter deltaprof_filter = {sizeof first_filter - 1, (const uint8_t *)first_filter};

static struct {
    _Atomic uint8_t *filter;
    _Atomic(struct slot *) slots; /* SLOTS a bucket; NULL before init; [INIT] the rest is set when it is not */
    uint64_t filter_mask;
    uint32_t n_buckets;
    uint64_t one_bucket;                    /* 2^64 / n_buckets, rounded up */
    _Alignas(64) _Atomic uint32_t cleaning; /* the fields above are only read */
} live = {.filter = first_filter, .filter_mask = sizeof first_filter - 1};

static struct {
    uintptr_t start, end;
} watched;

struct place {
    uint32_t byte; /* index of the filter byte */
    uint32_t home;
};

static inline struct place place_of(uintptr_t key)
{
    uint32_t byte = (uint32_t)deltaprof_filter_index(key, live.filter_mask);
    /* byte / SLOTS % n_buckets by multiplication (Lemire, Kaser, Kurz: "Faster remainder by direct computation") */
    uint64_t fraction = live.one_bucket * (byte / SLOTS);
    return (struct place){byte, (uint32_t)((unsigned __int128)fraction * live.n_buckets >> 64)};
}

static inline struct slot *slot_at(size_t number)
{
    return &dp_load_relaxed(&live.slots)[number];
}

/*
 * The slots of the i-th bucket for a key of this place: first the home, then buckets far from it and from each other.
 */
static inline struct slot *bucket_at(struct place place, unsigned i)
{
    uint64_t at = place.home;
    if (i) {
        uint32_t step = (uint32_t)((place.byte + 1) * 0xD6E8FEB86659FD93u >> 32);
        at = (at + (uint64_t)i * (step % (live.n_buckets - 1) + 1)) % live.n_buckets;
    }
    return slot_at(at * SLOTS);
}

/* The slot where a key of this place lies, unless it was in use. */
static inline struct slot *first_slot(struct place place)
{
    return slot_at((size_t)place.home * SLOTS + place.byte % SLOTS);
}

int dp_live_blocks_init(size_t budget_bytes)
{
    /* The filter gets about an eighth, a power of two: at least two bytes per slot, most of them 0. */
    unsigned filter_bits = MIN_BITS;
    while (filter_bits < 32 && (size_t)16 << filter_bits <= budget_bytes)
        filter_bits++;
    size_t n_buckets = (budget_bytes - ((size_t)1 << filter_bits)) / (SLOTS * sizeof(struct slot));
    if (budget_bytes < (size_t)2 << MIN_BITS || n_buckets < 2 * BUCKETS)
        return -ENOMEM;
    if (n_buckets > (uint32_t)-1 / SLOTS)
        n_buckets = (uint32_t)-1 / SLOTS;
    struct slot *slots = dp_mem_table(n_buckets * SLOTS * sizeof *slots);
    _Atomic uint8_t *filter = dp_mem_table((size_t)1 << filter_bits);
    if (!slots || !filter)
        return -ENOMEM;
    live.filter = filter;
    live.filter_mask = ((uint64_t)1 << filter_bits) - 1;
    live.n_buckets = (uint32_t)n_buckets;
    live.one_bucket = UINT64_MAX / n_buckets + 1;
    /* A free may read the old mask and then the new table: so watched blocks are entered at the old index too. */
    for (size_t i = 0; i < sizeof first_filter; i++)
        if (dp_load_relaxed(&first_filter[i]))
            dp_store_relaxed(&filter[i], WATCHED);
    dp_live_blocks_mark(watched.start, watched.end - watched.start);
    dp_store_release(&live.slots, slots); /* [INIT] */
    /* [FILTER]: deltaprof_may_be_live acquires the mask; with the new mask it must not find the old, shorter table. */
    dp_store_release((const uint8_t *_Atomic *)&deltaprof_filter.bytes, (const uint8_t *)filter);
    dp_store_release((_Atomic uint64_t *)&deltaprof_filter.mask, live.filter_mask);
    return 0;
}

void dp_live_blocks_crowd(void)
{
    if (!dp_load_acquire(&live.slots)) /* [INIT] */
        return;
    dp_mem_huge(slot_at(0), (size_t)live.n_buckets * SLOTS * sizeof(struct slot));
}

void dp_live_blocks_mark(uintptr_t start, size_t n_bytes)
{
    if (!n_bytes)
        return;
    if (!watched.end)
        watched.start = start;
    watched.start = start < watched.start ? start : watched.start;
    watched.end = start + n_bytes > watched.end ? start + n_bytes : watched.end;
    for (uintptr_t at = start & ~(uintptr_t)15; at < start + n_bytes; at += 16)
        dp_store_relaxed(&live.filter[deltaprof_filter_index(at, live.filter_mask)], WATCHED);
}

/* Sets the filter byte of an entry whose slot is BUSY: PRESENT, SPILLED if wanted, and not CLEANING. */
static void show(uint32_t byte, uint8_t wanted)
{
    _Atomic uint8_t *at = &live.filter[byte];
    uint8_t seen = dp_load_total(at); /* [CLEAN] */
    if ((seen & WATCHED) || (seen & (wanted | CLEANING)) == wanted)
        return;
    if (!dp_cas_total(at, &seen, (uint8_t)((seen & SPILLED) | wanted)) && !(seen & WATCHED)) /* [CLEAN] */
        dp_swap_total(at, (uint8_t)(PRESENT | SPILLED)); /* [CLEAN] sets too many bits instead of looping */
}

/* Whether the first n buckets hold an entry of this byte, or an unknown one (BUSY). */
static bool holds(struct place place, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const struct slot *bucket = bucket_at(place, i);
        for (unsigned k = 0; k < SLOTS; k++) {
            uint64_t key = dp_load_total(&bucket[k].key); /* [CLEAN] */
            if (key && (key == BUSY || place_of(key).byte == place.byte))
                return true;
        }
    }
    return false;
}

/* After a search that found nothing: clears the byte if no entry needs it. Most often one does, in the home. */
static void clean(struct place place)
{
    _Atomic uint8_t *at = &live.filter[place.byte];
    uint8_t seen = dp_load_relaxed(at);
    if (!seen || (seen & WATCHED) || holds(place, 1))
        return;
    uint32_t mine = (uint32_t)(dp_clock_coarse_ns() >> CLAIM_SHIFT) + 1, claim = dp_load_relaxed(&live.cleaning);
    if ((claim && mine - claim < CLAIM_ABANDONED) || !dp_cas_acquire(&live.cleaning, &claim, mine))
        return;
    uint8_t marked = seen | CLEANING;
    if (dp_cas_total(at, &seen, marked)) { /* [CLEAN] */
        uint8_t then = holds(place, BUCKETS) ? marked & ~CLEANING : 0;
        if (dp_load_relaxed(&live.cleaning) == mine)
            dp_cas_total(at, &marked, then);
    }
    dp_cas_publish(&live.cleaning, &mine, 0);
}

static inline void read_value(const struct slot *slot, struct dp_live_block *entry)
{
    uint64_t who = dp_load_relaxed(&slot->who);
    entry->record = (dp_record_id)who;
    entry->objects = (uint32_t)(who >> 32);
    entry->bytes = dp_load_relaxed(&slot->bytes);
}

/* Finds the slot of a key that is not in its first slot. NULL: not there. */
static __attribute__((noinline)) struct slot *find_elsewhere(struct place place, uintptr_t key)
{
    unsigned n = dp_load_relaxed(&live.filter[place.byte]) & (SPILLED | WATCHED) ? BUCKETS : 1;
    for (unsigned i = 0; i < n; i++) {
        struct slot *bucket = bucket_at(place, i);
        for (unsigned k = 0; k < SLOTS; k++)
            if (dp_load_acquire(&bucket[k].key) == key) /* [ENTRY] */
                return &bucket[k];
    }
    clean(place);
    return NULL;
}

static inline struct slot *find(uintptr_t key)
{
    if (!dp_load_acquire(&live.slots) /* [INIT] */ || !key || key == BUSY)
        return NULL;
    struct place place = place_of(key);
    struct slot *first = first_slot(place);
    if (__builtin_expect(dp_load_acquire(&first->key) == key, 1)) /* [ENTRY] */
        return first;
    return find_elsewhere(place, key);
}

bool dp_live_blocks_claim(uintptr_t key, struct dp_live_block *entry, uint32_t *number)
{
    struct slot *slot = find(key);
    if (!slot)
        return false;
    read_value(slot, entry);
    dp_store_relaxed(&slot->key, BUSY);
    *number = (uint32_t)(slot - slot_at(0));
    return true;
}

void dp_live_blocks_unclaim(uintptr_t key, uint32_t number)
{
    dp_store_release(&slot_at(number)->key, key); /* [ENTRY] */
}

void dp_live_blocks_drop(uint32_t number)
{
    dp_store_release(&slot_at(number)->key, 0); /* [ENTRY] */
}

bool dp_live_blocks_remove(uintptr_t key, struct dp_live_block *entry)
{
    struct slot *slot = find(key);
    if (!slot)
        return false;
    read_value(slot, entry);
    dp_store_release(&slot->key, 0); /* [ENTRY] */
    return true;
}

bool dp_live_blocks_remove_next(uint32_t *at, unsigned heap, struct dp_live_block *entry)
{
    if (!dp_load_acquire(&live.slots)) /* [INIT] */
        return false;
    for (; *at < (size_t)live.n_buckets * SLOTS; ++*at) {
        struct slot *slot = slot_at(*at);
        uint64_t key = dp_load_acquire(&slot->key); /* [ENTRY] */
        if (key && key != BUSY && key >> 56 == heap) {
            read_value(slot, entry);
            dp_store_release(&slot->key, 0); /* [ENTRY] */
            return true;
        }
    }
    return false;
}

/* Puts the entry into this slot, if it is empty. */
static inline bool put(struct slot *slot, uintptr_t key, const struct dp_live_block *entry)
{
    uint64_t expected = 0;
    if (__builtin_expect(!dp_cas_total(&slot->key, &expected, BUSY), 0)) /* [ENTRY] [CLEAN] */
        return false;
    dp_store_relaxed(&slot->who, entry->record | (uint64_t)entry->objects << 32);
    dp_store_relaxed(&slot->bytes, entry->bytes);
    dp_store_release(&slot->key, key); /* [ENTRY] */
    return true;
}

/* Inserts if the first slot is in use, perhaps by an old entry of this key, whose block was freed without a hook. */
static __attribute__((noinline)) bool insert_elsewhere(struct place place, uintptr_t key,
                                                       const struct dp_live_block *entry, struct dp_live_block *stale)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        struct slot *bucket = bucket_at(place, i);
        for (unsigned k = 0; k < SLOTS; k++)
            if (dp_load_acquire(&bucket[k].key) == key) { /* [ENTRY] */
                read_value(&bucket[k], stale);
                dp_store_release(&bucket[k].key, 0); /* [ENTRY] */
            }
        for (unsigned k = 0; k < SLOTS; k++)
            if (!dp_load_relaxed(&bucket[k].key) && put(&bucket[k], key, entry)) {
                show(place.byte, i ? PRESENT | SPILLED : PRESENT);
                return true;
            }
    }
    return false;
}

bool dp_live_blocks_insert(uintptr_t key, const struct dp_live_block *entry, struct dp_live_block *stale)
{
    stale->objects = 0;
    if (!dp_load_acquire(&live.slots) /* [INIT] */ || !key || key == BUSY)
        return false;
    struct place place = place_of(key);
    if (__builtin_expect(!put(first_slot(place), key, entry), 0))
        return insert_elsewhere(place, key, entry, stale);
    show(place.byte, PRESENT);
    return true;
}

void dp_live_blocks_prefetch(uintptr_t key)
{
    if (!dp_load_acquire(&live.slots)) /* [INIT] */
        return;
    struct place place = place_of(key);
    const struct slot *slot = first_slot(place);
    __builtin_prefetch(slot, 1);
    __builtin_prefetch(&slot->bytes, 1); /* the next line, for two slots of a bucket */
    __builtin_prefetch((const void *)&live.filter[place.byte]);
}

void dp_live_blocks_fork_child(void)
{
    dp_store_relaxed(&live.cleaning, 0);
}
