/* SPDX-License-Identifier: MIT */
/*
 * host/heap/mappings.c - keeps the mapped ranges in an array, in the order of their addresses.
 *
 * A hook may run in a signal handler, so it may not wait for a lock, and a change must not be lost because another
 * thread is busy. So a change that finds the lock taken goes into a queue, and the thread that has the lock makes it:
 *
 *     change:  lock is free ---> lock; make the queued changes, then this one; unlock; queue not empty: again
 *              lock is taken --> put it into the queue; try the lock once more
 *
 * 1. The order of two changes of one address is kept. A range is marked or removed before the kernel unmaps it, and
 *    added after the kernel has mapped it. So if an addition follows a removal of the same address, the removal's call
 *    came first: it was made, or is in the queue, when the addition comes, and the queue is emptied before a new
 * change.
 * 2. No change stays in the queue for long. A thread that queues one tries the lock afterwards; the thread that has the
 *    lock looks at the queue after it has unlocked. [LOCK] [QUEUE]: both write one word and then read the other's, in
 *    the total order, so at least one of them sees the other's write.
 * 3. The queue is Vyukov's bounded queue: a cell's turn says whether it may be written or read. A full queue loses the
 *    change.
 * 4. Only a call that succeeds unmaps. So a range is marked before the call, and removed after it, if it still has the
 *    mark: a range that another thread has mapped there meanwhile has none.
 * 5. A thread that dies, or jumps out of a handler, in here leaves the lock taken: later changes are lost, and counted.
 *
 * Each mapping is one object, which its lowest part carries: when that is gone, the next part gets it.
 */
#include "host/heap/mappings.h"

#include "base/mem.h"
#include "base/process.h"
#include "base/stats.h"
#include "host/heap/inherited.h"
#include "host/table/record.h"

#include <errno.h>
#include <string.h>

#define RESERVED UINT32_MAX /* instead of a record */

enum { QUEUE = 1024 };

struct range {
    uintptr_t start, end;
    uintptr_t limit; /* where the mapping ended when it was made: its other parts lie below */
    uint32_t record;
    uint32_t number; /* of the mapping, for all its parts */
    uint16_t epoch;  /* the fork count of the process that mapped it */
    uint16_t objects;
    uint32_t leaving; /* the mark of a call that may unmap it; 0: none */
};

struct request {
    uintptr_t start, end;
    uint32_t record, change;
};

static struct {
    struct range *at;
    size_t n, most;
    uint32_t n_made; /* mappings: numbers them */
    _Atomic uint32_t lock;
    _Atomic uint32_t head, tail; /* of the queue: the next cell to read, and to write */
    struct {
        _Atomic uint32_t turn; /* i: may be written by the writer of slot i; i + 1: may be read */
        struct request request;
    } queue[QUEUE];
} mappings DP_LARGE;

int dp_heap_mappings_init(size_t most)
{
    mappings.at = dp_mem_table(most * sizeof *mappings.at);
    mappings.most = mappings.at ? most : 0;
    for (uint32_t i = 0; i < QUEUE; i++)
        dp_store_relaxed(&mappings.queue[i].turn, i);
    return mappings.at ? 0 : -ENOMEM;
}

size_t dp_heap_mappings_most(void)
{
    return mappings.most;
}

/* ---- the ranges, under the lock --------------------------------------------------------------------------------- */

/* The first range that ends behind the address. */
static size_t find(uintptr_t address)
{
    size_t low = 0, high = mappings.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (mappings.at[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Makes room for a range at i. False: there is none. */
static bool open_at(size_t i)
{
    if (mappings.n == mappings.most) {
        dp_stats_add(DP_STAT_MAPS_LOST, 1);
        return false;
    }
    memmove(&mappings.at[i + 1], &mappings.at[i], (mappings.n - i) * sizeof *mappings.at);
    mappings.n++;
    return true;
}

static void close_at(size_t i, size_t n)
{
    memmove(&mappings.at[i], &mappings.at[i + n], (mappings.n - i - n) * sizeof *mappings.at);
    mappings.n -= n;
}

static void count_free(const struct range *range, uintptr_t n_bytes, uint32_t objects)
{
    uint32_t epoch = dp_record_epoch();
    if (range->record == RESERVED || (dp_record_is_marked() && !dp_record_may_free()))
        return;
    if (epoch && range->epoch == (uint16_t)epoch)
        dp_heap_inherited_add_own_free(range->record, objects, (int64_t)n_bytes);
    dp_table_add_free(DP_KIND_HEAP, range->record, objects, (int64_t)n_bytes);
    dp_tally_add(DP_TALLY_INUSE, dp_thread_shard(dp_thread_self()), -(int64_t)n_bytes);
}

static void count_alloc(dp_record_id record, uintptr_t n_bytes)
{
    dp_record_count(DP_KIND_HEAP, record, 1, (int64_t)n_bytes);
    dp_tally_add(DP_TALLY_INUSE, dp_thread_shard(dp_thread_self()), (int64_t)n_bytes);
}

/* Cuts a range in two at the address, so that one ends there. False: no room, nothing is changed. */
static bool cut_at(uintptr_t address)
{
    size_t i = find(address);
    if (i == mappings.n || mappings.at[i].start >= address)
        return true;
    if (!open_at(i))
        return false;
    mappings.at[i].end = address;
    mappings.at[i + 1].start = address;
    mappings.at[i + 1].objects = 0;
    return true;
}

/* Gives the object of a range to the next part of its mapping, from i on. False: there is none. */
static bool give_object(const struct range *range, size_t i)
{
    for (; i < mappings.n && mappings.at[i].start < range->limit; i++)
        if (mappings.at[i].number == range->number) {
            mappings.at[i].objects = range->objects;
            return true;
        }
    return false;
}

/* A whole mapping, or a reserved range. */
static struct range made(uintptr_t start, uintptr_t end, uint32_t record)
{
    return (struct range){start, end, end, record, ++mappings.n_made, (uint16_t)dp_record_epoch(), record != RESERVED,
                          0};
}

/* Removes the ranges [first, last), which are counted as freed. */
static void drop_at(size_t first, size_t last)
{
    for (size_t i = first; i < last; i++) {
        const struct range *range = &mappings.at[i];
        bool is_left = range->objects && give_object(range, last);
        count_free(range, range->end - range->start, is_left ? 0 : range->objects);
    }
    close_at(first, last - first);
}

static void drop(uintptr_t start, uintptr_t end)
{
    if (!cut_at(start) || !cut_at(end))
        return;
    size_t first = find(start), last = first;
    while (last < mappings.n && mappings.at[last].start < end)
        last++;
    drop_at(first, last);
}

static void mark_leaving(uintptr_t start, uintptr_t end, uint32_t mark)
{
    if (!cut_at(start) || !cut_at(end))
        return;
    for (size_t i = find(start); i < mappings.n && mappings.at[i].start < end; i++)
        mappings.at[i].leaving = mark;
}

/* What a call was about to unmap is gone, or stays. */
static void decide(uintptr_t start, uintptr_t end, uint32_t mark, bool is_gone)
{
    if (!cut_at(start) || !cut_at(end))
        return;
    for (size_t i = find(start); i < mappings.n && mappings.at[i].start < end;) {
        if (mappings.at[i].leaving == mark && is_gone) {
            drop_at(i, i + 1);
            continue;
        }
        if (mappings.at[i].leaving == mark)
            mappings.at[i].leaving = 0;
        i++;
    }
}

static void add(uintptr_t start, uintptr_t end, dp_record_id record)
{
    drop(start, end);
    size_t i = find(start);
    if (!open_at(i))
        return;
    if (record != RESERVED)
        count_alloc(record, end - start);
    mappings.at[i] = made(start, end, record);
}

static void use(uintptr_t start, uintptr_t end, dp_record_id record)
{
    if (!cut_at(start) || !cut_at(end))
        return;
    for (size_t i = find(start); i < mappings.n && mappings.at[i].start < end; i++) {
        struct range *range = &mappings.at[i];
        if (range->record != RESERVED)
            continue;
        count_alloc(record, range->end - range->start);
        *range = made(range->start, range->end, record);
    }
}

static void make(const struct request *r)
{
    if (r->change == DP_MAPPING_ADD)
        add(r->start, r->end, r->record);
    else if (r->change == DP_MAPPING_RESERVE)
        add(r->start, r->end, RESERVED);
    else if (r->change == DP_MAPPING_USE)
        use(r->start, r->end, r->record);
    else if (r->change == DP_MAPPING_LEAVE)
        mark_leaving(r->start, r->end, r->record);
    else if (r->change == DP_MAPPING_GONE || r->change == DP_MAPPING_STAY)
        decide(r->start, r->end, r->record, r->change == DP_MAPPING_GONE);
    else
        drop(r->start, r->end);
}

/* ---- the lock and the queue ------------------------------------------------------------------------------------- */

static bool lock(void)
{
    uint32_t unlocked = 0;
    return dp_cas_total(&mappings.lock, &unlocked, 1); /* [LOCK] the ranges are as the last owner left them */
}

static void unlock(void)
{
    dp_swap_total(&mappings.lock, 0); /* [LOCK] */
}

static bool enqueue(const struct request *request)
{
    uint32_t at = dp_load_relaxed(&mappings.tail);
    for (;;) {
        uint32_t turn = dp_load_acquire(&mappings.queue[at % QUEUE].turn); /* [TURN] */
        if ((int32_t)(turn - at) < 0)
            return false;
        if (turn != at)
            at = dp_load_relaxed(&mappings.tail);
        else if (dp_cas_relaxed(&mappings.tail, &at, at + 1))
            break;
    }
    mappings.queue[at % QUEUE].request = *request;
    dp_swap_total(&mappings.queue[at % QUEUE].turn, at + 1); /* [TURN] the request is whole; [QUEUE] */
    return true;
}

/* Whether a request can be read. */
static bool is_waiting(void)
{
    uint32_t at = dp_load_relaxed(&mappings.head);
    return dp_load_total(&mappings.queue[at % QUEUE].turn) == at + 1; /* [QUEUE] [TURN] */
}

/* Under the lock. */
static void make_queued(void)
{
    for (unsigned n = 0; n < QUEUE && is_waiting(); n++) {
        uint32_t at = dp_load_relaxed(&mappings.head);
        make(&mappings.queue[at % QUEUE].request);
        dp_store_relaxed(&mappings.head, at + 1);
        dp_store_release(&mappings.queue[at % QUEUE].turn, at + QUEUE); /* [TURN] it was read */
    }
}

void dp_heap_mappings_change(enum dp_heap_mapping_change change, uintptr_t start, uintptr_t end, dp_record_id record)
{
    struct request request = {start, end, record, change};
    if (!mappings.most || start >= end)
        return;
    bool is_owner = lock();
    if (!is_owner) {
        if (!enqueue(&request)) {
            dp_stats_add(DP_STAT_MAPS_LOST, 1);
            return;
        }
        is_owner = lock();
        if (!is_owner)
            return; /* the owner looks at the queue after it has unlocked */
        make_queued();
    } else {
        make_queued();
        make(&request);
    }
    unlock();
    for (unsigned n = 0; n < QUEUE && is_waiting() && lock(); n++) {
        make_queued();
        unlock();
    }
}

bool dp_heap_mappings_are_reserved(uintptr_t start, uintptr_t end)
{
    bool are = false;
    if (!mappings.most || !lock())
        return false;
    make_queued();
    for (size_t i = find(start); i < mappings.n && mappings.at[i].start < end && !are; i++)
        are = mappings.at[i].record == RESERVED;
    unlock();
    return are;
}

size_t dp_heap_mappings_copy(struct dp_heap_mapped_range *to, size_t n_most)
{
    size_t n = 0;
    if (!mappings.most || !lock())
        return 0;
    make_queued();
    for (size_t i = 0; i < mappings.n && n < n_most; i++)
        if (mappings.at[i].record != RESERVED)
            to[n++] = (struct dp_heap_mapped_range){mappings.at[i].start, mappings.at[i].end, mappings.at[i].record};
    unlock();
    return n;
}

DP_IN_CHILD void dp_heap_mappings_fork_child(void)
{
    if (!mappings.most)
        return; /* nothing was ever queued, and a write here copies eight pages in each child */
    if (dp_load_relaxed(&mappings.lock))
        mappings.n = 0; /* the parent's other thread was changing them */
    dp_store_relaxed(&mappings.lock, 0);
    dp_store_relaxed(&mappings.head, 0);
    dp_store_relaxed(&mappings.tail, 0);
    for (uint32_t i = 0; i < QUEUE; i++)
        dp_store_relaxed(&mappings.queue[i].turn, i);
}
