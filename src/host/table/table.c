/* SPDX-License-Identifier: MIT */
/*
 * host/table/table.c - tables of records, one for each kind: an index by hash, records by id, counters by id.
 *
 * A record is found through an index of 32-bit words, {tag, id}: the id in as many low bits as it needs, and above it a
 * part of the hash, so that a probe that misses seldom reads a record. 0 is an empty word (record 0 is never looked
 * up). The hash only selects an index: heap, labels, depth and every frame are compared. Counters are separate from
 * records, so that a report reads only 32 bytes per record.
 *
 * States of a record:     unused --next++--> being filled --CAS of an index word [RECORD]--> found --add--> counted
 *
 * 1. An index word goes from 0 to its final value once. A record and its frames are written before that, by one thread.
 * 2. An id is taken before the CAS, so if two threads meet the same new stack, both fill a record and one of them
 *    loses. It keeps its record for the next new stack that it meets (its spare). Until then no search finds that id,
 *    and its counters are 0; readers skip rows of zeros anyway. A lock or a wait instead would be neither signal-safe
 *    nor fork-safe.
 * 3. Counters only grow. A free is added with release after its alloc was added, and read with acquire before the
 *    alloc is [COUNT]. Without it a reader could see the free and not its alloc: in-use would be negative.
 * 4. An alloc too is added with release and read with acquire [COUNT]: a reader that sees a counter that is not 0 may
 *    read its record and frames. Without it, it could read a record that still looks empty.
 *
 * Hot records. If eight threads allocate from one stack, they compete for the cache line of its counters. So a record
 * that was counted thousands of times gets stripes: a copy of its counters in each shard (thread.h). Eight of the
 * shards have one writing thread each, which needs no locked add. The number of the record's stripes stands in the
 * upper bits of n (0: none) and is set once. Earlier counts stay where they are; a reader adds up all parts.
 *
 * 5. A reader loads the stripes' number before it sums frees and again before it sums allocs. If the number appears in
 *    between, some frees are missed, but no alloc whose free was seen: the thread that added that free knew the number,
 *    or took its entry from a thread that knew it [COUNT].
 * 6. Only one thread assigns stripes at a time (`promoting` is tried once, never waited for). The fuller the pool, the
 *    hotter a record must be.
 *
 * Growth. Stacks and heap records have more address space than memory: `cap` of their indices are charged, and where
 * they are full, `cap` is raised by one step if enough memory is left. If the indices that a thread took lie across the
 * old end, the thread leaves them unused and takes others. Everything there is zero until it is used, so readers need
 * not know of it.
 *
 * Progress: every operation ends after at most PROBES index words, whatever others do. A reader may miss events that
 * were added after it began. If ids, frames or PROBES words in a row are used up, record 0 is used, and the loss is
 * counted by cause.
 */
#include "host/table/table.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/stats.h"
#include "host/shared/table_file.h"
#include "host/table/table_state.h"
#include "host/table/heaps.h"
#include "host/table/label_sets.h"
#include "host/table/labels.h"
#include "host/thread/thread.h"

#include <errno.h>
#include <string.h>

/* ---- records ---- */

#define PROBES        64u
#define LOAD_LIMIT    5 / 8 /* ids per index word, at most */
#define N_MASK        (((int64_t)1 << DP_STRIPES_SHIFT) - 1)
#define HOT_EVENTS    4096 /* a power of two: events between two checks whether a record is hot */
#define HOT_DOUBLINGS 8    /* how often the threshold doubles from an empty pool to a full one */
#define STRIPES_MAX   2046u

struct dp_table_of_kind dp_table_kinds[DP_KIND_TABLES];
struct dp_table_stripes dp_table_stripes;
struct dp_table_stacks dp_table_stacks;

#define PER_RECORD_BYTES (sizeof(struct dp_record) + sizeof(struct dp_table_counters) + sizeof(struct dp_table_base))

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

static int table_init(unsigned kind, size_t budget_bytes, size_t spare_bytes)
{
    struct dp_table_of_kind *table = &dp_table_kinds[kind];
    size_t wanted = (budget_bytes + spare_bytes) / (PER_RECORD_BYTES + 8), words = 64;
    while (words * LOAD_LIMIT < wanted && words < 1u << 30)
        words *= 2;
    if (budget_bytes < words * 4 + PER_RECORD_BYTES)
        return -ENOMEM;
    size_t now = (budget_bytes - words * 4) / PER_RECORD_BYTES,
           limit = at_most(words * LOAD_LIMIT, DP_THREAD_SPARE_MAX);
    size_t most = at_most(now + spare_bytes / PER_RECORD_BYTES, limit);
    now = at_most(now, limit);
    table->index = dp_mem_table(words * 4);
    if (!table->index || dp_shared_array_init(DP_ARRAY_RECORDS + kind, sizeof *table->records, now, most, 1) ||
        dp_shared_array_init(DP_ARRAY_COUNTERS + kind, sizeof *table->counters, now, most, 1) ||
        dp_shared_array_init(DP_ARRAY_BASE + kind, sizeof *table->base, now, most, 1) ||
        dp_shared_array_init(DP_ARRAY_COLUMNS + 2 * kind, sizeof *table->base, 0, most, 1) ||
        dp_shared_array_init(DP_ARRAY_COLUMNS + 2 * kind + 1, sizeof *table->base, 0, most, 1))
        return -ENOMEM;
    table->shared_records = dp_shared_array(DP_ARRAY_RECORDS + kind);
    table->shared_counters = dp_shared_array(DP_ARRAY_COUNTERS + kind);
    table->shared_base = dp_shared_array(DP_ARRAY_BASE + kind);
    table->records = dp_shared_at(DP_ARRAY_RECORDS + kind);
    table->counters = dp_shared_at(DP_ARRAY_COUNTERS + kind);
    table->base = dp_shared_at(DP_ARRAY_BASE + kind);
    table->shared_records->used = &table->ids.next;
    table->shared_counters->is_fresh = table->shared_base->is_fresh = true;
    dp_shared_array(DP_ARRAY_COLUMNS + 2 * kind)->is_fresh = true;
    dp_shared_array(DP_ARRAY_COLUMNS + 2 * kind + 1)->is_fresh = true;
    table->index_mask = (uint32_t)words - 1;
    table->ids.most = (uint32_t)most;
    table->ids.each_bytes = PER_RECORD_BYTES;
    dp_store_relaxed(&table->ids.cap, (uint32_t)now);
    table->id_mask = 1;
    while (table->id_mask < table->ids.most)
        table->id_mask = table->id_mask << 1 | 1;
    return 0;
}

static int stacks_init(size_t budget_bytes, size_t spare_bytes)
{
    if (dp_shared_array_init(DP_ARRAY_STACKS, sizeof(dp_frame_id), budget_bytes / sizeof(dp_frame_id),
                             (budget_bytes + spare_bytes) / sizeof(dp_frame_id), 1))
        return -ENOMEM;
    dp_table_stacks.frames = dp_shared_at(DP_ARRAY_STACKS);
    dp_table_stacks.shared = dp_shared_array(DP_ARRAY_STACKS);
    dp_table_stacks.shared->used = &dp_table_stacks.growth.next;
    dp_table_stacks.growth.most = (uint32_t)at_most((budget_bytes + spare_bytes) / sizeof(dp_frame_id), 1u << 31);
    dp_table_stacks.growth.each_bytes = sizeof(dp_frame_id);
    dp_store_relaxed(&dp_table_stacks.growth.cap, (uint32_t)at_most(budget_bytes / sizeof(dp_frame_id), 1u << 31));
    dp_table_stacks.frames[0] = DP_FRAME_OVERFLOW;
    dp_store_relaxed(&dp_table_stacks.growth.next, 1);
    return 0;
}

int dp_table_init(size_t budget_bytes, size_t spare_bytes)
{
    size_t n_stripes = budget_bytes / 32 / (DP_SHARDS * sizeof(struct dp_table_counters));
    dp_table_stripes.cap = n_stripes < STRIPES_MAX ? (uint32_t)n_stripes : STRIPES_MAX;
    /* Whole pages by shard: each shard is one part of the array. With pages of 64 KiB there are no stripes. */
    dp_table_stripes.cap -= dp_table_stripes.cap % (uint32_t)(dp_page_bytes() / sizeof(struct dp_table_counters));
    if (dp_shared_array_init(DP_ARRAY_STRIPES, sizeof(struct dp_table_counters), dp_table_stripes.cap,
                             dp_table_stripes.cap, DP_SHARDS))
        return -ENOMEM;
    dp_table_stripes.at = dp_shared_at(DP_ARRAY_STRIPES);
    dp_table_stripes.shared = dp_shared_array(DP_ARRAY_STRIPES);
    dp_table_stripes.shared->is_fresh = true;
    budget_bytes -= budget_bytes / 32;
    size_t stack_bytes = budget_bytes / 100 * 55, records_bytes = budget_bytes - stack_bytes;
    size_t spare_records_bytes = spare_bytes / 5, n_shares = 0;
    if (stacks_init(stack_bytes, spare_bytes - spare_records_bytes))
        return -ENOMEM;
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        n_shares += dp_kind_table[kind].table_share;
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++) {
        const struct dp_kind *k = &dp_kind_table[kind];
        if (table_init(kind, records_bytes / n_shares * k->table_share, k->can_grow ? spare_records_bytes : 0))
            return -ENOMEM;
        dp_table_kinds[kind].records[0] = (struct dp_record){.stack = 0, .depth = 1};
        dp_store_relaxed(&dp_table_kinds[kind].ids.next, 1);
    }
    return 0;
}

/* As memcmp, inline: a call would double the cost. */
static inline bool has_same_frames(const dp_frame_id *a, const dp_frame_id *b, uint32_t n)
{
    for (; n >= 4; n -= 4, a += 4, b += 4) {
        uint64_t x[2], y[2];
        memcpy(x, a, sizeof x);
        memcpy(y, b, sizeof y);
        if ((x[0] ^ y[0]) | (x[1] ^ y[1]))
            return false;
    }
    for (uint32_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

/* Whether the record is the one of this stack: all is compared, not only the hash. */
static inline bool is_record_of(const struct dp_record *record, uint64_t hash, uint8_t heap, uint32_t labels,
                                const struct dp_stack *stack)
{
    return record->hash == hash && record->depth == stack->depth && record->heap == heap && record->labels == labels &&
           has_same_frames(&dp_table_stacks.frames[record->stack], stack->frames, stack->depth);
}

/*
 * Fills a record for this stack; no search finds it yet. 0: there is no room, or a full tmpfs has no page for it. Then
 * the thread keeps the id for its next new stack: else a tmpfs that is full for a while would use up all ids.
 */
static dp_record_id fill_record(unsigned kind, uint64_t hash, uint8_t heap, uint32_t labels,
                                const struct dp_stack *stack)
{
    struct dp_table_of_kind *table = &dp_table_kinds[kind];
    uint32_t id = dp_thread_take_spare(kind), at;
    if (!id && !dp_table_reserve(&table->ids, 1, &id))
        return 0;
    if (!dp_shared_commit(table->shared_records, id + 1) || !dp_shared_commit(table->shared_counters, id + 1)) {
        dp_thread_keep_spare(kind, id);
        return 0;
    }
    if (table->records[id].depth >= stack->depth) {
        at = table->records[id].stack;
    } else if (!dp_table_reserve(&dp_table_stacks.growth, stack->depth, &at)) {
        dp_thread_keep_spare(kind, id);
        return 0;
    }
    if (dp_labels_of_set(labels))
        dp_label_set_publish(dp_labels_of_set(labels));
    if (heap)
        dp_table_heap_publish(heap);
    if (!dp_shared_commit(dp_table_stacks.shared, at + stack->depth)) {
        /* The frames stay the record's, for the next stack that is not deeper. */
        table->records[id] = (struct dp_record){.stack = at, .depth = (uint16_t)stack->depth};
        dp_thread_keep_spare(kind, id);
        return 0;
    }
    memcpy(&dp_table_stacks.frames[at], stack->frames, stack->depth * sizeof(dp_frame_id));
    table->records[id] = (struct dp_record){.hash = hash,
                                            .stack = at,
                                            .depth = (uint16_t)stack->depth,
                                            .heap = heap,
                                            .cut = stack->cut != 0,
                                            .labels = labels};
    return id;
}

/* Whether less than sixteenths/16 of the charged indices are used, or a step more was charged now. */
static bool has_room(struct dp_table_growth *growth, unsigned sixteenths)
{
    uint32_t cap = dp_load_relaxed(&growth->cap);
    return dp_load_relaxed(&growth->next) < (uint64_t)cap * sixteenths / 16 || dp_table_grow(growth, cap);
}

/* 0: there was no room for a new record. sixteenths: as of dp_table_intern_within. */
static __attribute__((noinline)) dp_record_id find_or_make(unsigned kind, uint64_t hash, uint8_t heap, uint32_t labels,
                                                           const struct dp_stack *stack, unsigned sixteenths)
{
    struct dp_table_of_kind *table = &dp_table_kinds[kind];
    uint32_t tag = (uint32_t)hash & ~table->id_mask;
    uint32_t at = (uint32_t)(hash >> 32);
    dp_record_id mine = 0;
    for (unsigned i = 0; i < PROBES; i++, at++) {
        _Atomic uint32_t *word = &table->index[at & table->index_mask];
        uint32_t seen = dp_load_acquire(word); /* [RECORD] */
        if (!seen) {
            bool may_fill = sixteenths == 16 ||
                            (has_room(&table->ids, sixteenths) && has_room(&dp_table_stacks.growth, sixteenths));
            if (!mine && (!may_fill || !(mine = fill_record(kind, hash, heap, labels, stack))))
                return 0;
            if (dp_cas_publish(word, &seen, tag | mine)) /* [RECORD] */
                return mine;                             /* if it failed, `seen` is the winner's word */
        }
        if ((seen & ~table->id_mask) == tag &&
            is_record_of(&table->records[seen & table->id_mask], hash, heap, labels, stack)) {
            if (mine)
                dp_thread_keep_spare(kind, mine);
            return seen & table->id_mask;
        }
    }
    if (mine)
        dp_thread_keep_spare(kind, mine);
    return 0;
}

static uint64_t hash_of(uint8_t heap, uint32_t labels, const struct dp_stack *stack)
{
    return stack->hash ^ (heap || labels ? dp_hash_mix((uint64_t)heap << 32 | labels) : 0);
}

dp_record_id dp_table_intern_within(unsigned kind, uint32_t labels, const struct dp_stack *stack, unsigned sixteenths)
{
    return find_or_make(kind, hash_of(0, labels, stack), 0, labels, stack, sixteenths);
}

/* Counts an event for which there was no room. Returns record 0, which gets it. */
static dp_record_id count_overflow(unsigned kind)
{
    dp_store_relaxed(&dp_table_kinds[kind].is_full, true);
    dp_stats_add_of(DP_STAT_OVERFLOW, kind, 1);
    return 0;
}

dp_record_id dp_table_look_up(unsigned kind, uint8_t heap, uint32_t labels, const struct dp_stack *stack, uint64_t key)
{
    const struct dp_table_of_kind *table = &dp_table_kinds[kind];
    struct dp_stack_known *known = stack->known;
    uint64_t hash = hash_of(heap, labels, stack);
    uint32_t seen = dp_load_acquire(&table->index[(uint32_t)(hash >> 32) & table->index_mask]); /* [RECORD] */
    dp_record_id id = seen & table->id_mask;
    /* Nearly always the first word is the right one. */
    if (__builtin_expect(!id || seen - id != ((uint32_t)hash & ~table->id_mask), 0) ||
        __builtin_expect(!is_record_of(&table->records[id], hash, heap, labels, stack), 0))
        return (id = find_or_make(kind, hash, heap, labels, stack, 16)) ? id : count_overflow(kind);
    if (known) {
        known->record = id;
        known->key = key;
    }
    return id;
}

/* Gives a hot record its stripes, if the pool has any left and the record is hot enough (6.). */
static void assign_stripes(struct dp_table_counters *counters, int64_t n_events)
{
    uint32_t idle = 0;
    if (!dp_cas_acquire(&dp_table_stripes.promoting, &idle, 1))
        return;
    if (dp_table_stripes.next < dp_table_stripes.cap &&
        dp_shared_commit(dp_table_stripes.shared, dp_table_stripes.next + 1) &&
        n_events >= (int64_t)HOT_EVENTS << HOT_DOUBLINGS * dp_table_stripes.next / dp_table_stripes.cap &&
        !(dp_load_relaxed(&counters->n) >> DP_STRIPES_SHIFT))
        dp_add_release(&counters->n, (int64_t)++dp_table_stripes.next << DP_STRIPES_SHIFT);
    dp_store_release(&dp_table_stripes.promoting, 0);
}

/* The stripe of a shard; word: the record's n, which has the number of its stripes. */
static struct dp_table_counters *stripe_of(int64_t word, unsigned shard)
{
    return &dp_table_stripes.at[shard * dp_table_stripes.cap + (uint32_t)(word >> DP_STRIPES_SHIFT) - 1];
}

/* own: the calling thread is the only one that writes these counters. */
static inline void add_pair(_Atomic int64_t *v_at, int64_t v, _Atomic int64_t *n_at, int64_t n, bool own)
{
    if (own) {
        dp_add_own(v_at, v); /* [COUNT] */
        dp_add_own(n_at, n); /* [COUNT] */
    } else {
        dp_add_release(v_at, v); /* [COUNT] */
        dp_add_release(n_at, n); /* [COUNT] */
    }
}

void dp_table_add(unsigned kind, dp_record_id id, int64_t n, int64_t v)
{
    struct dp_table_counters *counters = &dp_table_kinds[kind].counters[id];
    int64_t word = dp_load_relaxed(&counters->n);
    if (word >> DP_STRIPES_SHIFT) {
        unsigned shard = dp_thread_shard(dp_thread_self());
        counters = stripe_of(word, shard);
        add_pair(&counters->v, v, &counters->n, n, shard < DP_SHARDS_OWN);
        return;
    }
    dp_add_release(&counters->v, v);                  /* [COUNT] */
    int64_t before = dp_add_release(&counters->n, n); /* [COUNT] */
    if (n == 1 && before % HOT_EVENTS == HOT_EVENTS - 1)
        assign_stripes(counters, before & N_MASK);
}

void dp_table_add_free(unsigned kind, dp_record_id id, int64_t n, int64_t v)
{
    struct dp_table_counters *counters = &dp_table_kinds[kind].counters[id];
    int64_t word = dp_load_relaxed(&counters->n);
    unsigned shard = DP_SHARDS;
    if (word >> DP_STRIPES_SHIFT) {
        shard = dp_thread_shard(dp_thread_self());
        counters = stripe_of(word, shard);
    }
    add_pair(&counters->free_v, v, &counters->free_n, n, shard < DP_SHARDS_OWN);
}

_Atomic int64_t *dp_table_word(unsigned kind, dp_record_id id)
{
    return &dp_table_kinds[kind].counters[id].free_v;
}

uint32_t dp_table_count(unsigned kind)
{
    const struct dp_table_of_kind *table = &dp_table_kinds[kind];
    uint32_t next = dp_load_relaxed(&table->ids.next), most = table->ids.most;
    if (most && next > dp_load_relaxed(&table->shared_counters->committed)) /* the tmpfs has no page for the others */
        next = dp_load_relaxed(&table->shared_counters->committed);
    return next < most ? next : most;
}

/* By the number of records: reading the counters would map their page in each forked worker. */
bool dp_table_is_empty(unsigned kind)
{
    return dp_table_count(kind) <= 1 && !dp_load_relaxed(&dp_table_kinds[kind].is_full);
}

uint32_t dp_table_most(unsigned kind)
{
    return dp_table_kinds[kind].ids.most;
}

void dp_table_read(unsigned kind, dp_record_id id, struct dp_counts *counts)
{
    struct dp_table_counters *counters = &dp_table_kinds[kind].counters[id];
    int64_t word = dp_load_acquire(&counters->n);        /* [COUNT], the first load of 5. */
    counts->free_n = dp_load_acquire(&counters->free_n); /* [COUNT] */
    counts->free_v = dp_load_acquire(&counters->free_v); /* [COUNT] */
    for (unsigned shard = 0; word >> DP_STRIPES_SHIFT && shard < DP_SHARDS; shard++) {
        counts->free_n += dp_load_acquire(&stripe_of(word, shard)->free_n); /* [COUNT] */
        counts->free_v += dp_load_acquire(&stripe_of(word, shard)->free_v); /* [COUNT] */
    }
    word = dp_load_acquire(&counters->n); /* [COUNT] */
    counts->n = word & N_MASK;
    counts->v = dp_load_acquire(&counters->v); /* [COUNT] */
    for (unsigned shard = 0; word >> DP_STRIPES_SHIFT && shard < DP_SHARDS; shard++) {
        counts->n += dp_load_acquire(&stripe_of(word, shard)->n); /* [COUNT] */
        counts->v += dp_load_acquire(&stripe_of(word, shard)->v); /* [COUNT] */
    }
    /*
     * Threads of a raw clone may share one TLS, and so one shard, and lose each other's adds. Even then in-use must not
     * be negative:
     */
    if (__builtin_expect(counts->free_n > counts->n || counts->free_v > counts->v, 0))
        counts->free_n = counts->n, counts->free_v = counts->v;
}

const struct dp_record *dp_table_record(unsigned kind, dp_record_id id)
{
    return &dp_table_kinds[kind].records[id];
}

const dp_frame_id *dp_table_frames(const struct dp_record *record)
{
    return &dp_table_stacks.frames[record->stack];
}

void dp_table_set_base(void)
{
    if (dp_shared_file_is_mapped())
        return; /* the file of a forked child began with its base */
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++) {
        struct dp_table_of_kind *table = &dp_table_kinds[kind];
        uint32_t count = table->ids.most ? dp_table_count(kind) : 0;
        if (!table->has_base && (!count || dp_table_is_empty(kind)))
            continue; /* all counters are 0, as is the base: its page stays untouched */
        table->has_base = true;
        for (uint32_t id = 0; id < count; id++) {
            struct dp_counts counts;
            dp_table_read(kind, id, &counts);
            table->base[id] = (struct dp_table_base){counts.n, counts.v};
        }
    }
}

DP_IN_CHILD void dp_table_fork_child(void)
{
    dp_store_relaxed(&dp_table_stripes.promoting, 0);
}

void dp_table_base(unsigned kind, dp_record_id id, struct dp_table_base *base)
{
    bool has_base = id < dp_load_relaxed(&dp_table_kinds[kind].shared_base->committed);
    *base = has_base ? dp_table_kinds[kind].base[id] : (struct dp_table_base){0, 0};
}
