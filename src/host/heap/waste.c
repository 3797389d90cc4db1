/* SPDX-License-Identifier: MIT */
/*
 * host/heap/waste.c - visits the table of live blocks twice, in the order of its slots, which is nearly that of
 * addresses, and adds what it sees of each block to the block's record: first of large blocks, then of the others.
 *
 * The program allocates and frees during the visit. A row has the counters of its record, read before: what the visit
 * finds beyond them is left out.
 */
#include "host/heap/waste.h"

#include "base/mem.h"
#include "host/heap/inherited.h"
#include "host/heap/live_blocks.h"
#include "host/heap/age.h"
#include "host/heap/mappings.h"
#include "host/resident/block_pages.h"
#include "host/resident/jemalloc.h"
#include "host/resident/mapping_list.h"
#include "host/table/record.h"

#include <deltaprof/heap.h>
#include <errno.h>
#include <string.h>

/* The table is visited twice. */
enum visit { VISIT_LARGE, VISIT_SMALL };
#define LARGE_BYTES DP_PAGE_LEAST

struct look {
    struct dp_resident_block_reader reader;
    struct dp_resident_free_heaps heaps;
    struct dp_resident_jemalloc jemalloc;
    struct {
        int64_t values[DP_HEAP_WASTE_VALUES];
    } * cells;       /* by record, origin (own, inherited) and age */
    int64_t aged_ns; /* 0: all are of one age */
    uint32_t n_records;
    unsigned n_origins, n_ages;
};

static size_t cells_bytes(const struct look *l)
{
    return (size_t)l->n_records * l->n_origins * l->n_ages * sizeof *l->cells;
}

static int64_t *values_of(const struct look *l, uint32_t record, unsigned origin, unsigned age)
{
    return l->cells[((size_t)record * l->n_origins + origin) * l->n_ages + age].values;
}

static void add_to(struct look *l, uint32_t record, bool inherited, unsigned age, uint32_t weight,
                   const struct dp_resident_block *block, int64_t pinned)
{
    int64_t *values = values_of(l, record, inherited, age);
    values[DP_HEAP_WASTE_RESIDENT] += weight * block->resident_bytes;
    values[DP_HEAP_WASTE_SWAPPED] += weight * block->swapped_bytes;
    values[DP_HEAP_WASTE_ZERO] += weight * block->zero_bytes;
    values[DP_HEAP_WASTE_IDLE] += weight * block->idle_bytes;
    values[DP_HEAP_WASTE_PINNED] += weight * pinned;
}

/*
 * Free bytes that a block of the C heap keeps from going back. A sample of a runtime's own allocator stands for blocks
 * that do not lie in the C heap, though it does itself (host/heap/sample_page.h). One that stands for itself only is
 * taken as it lies.
 */
static int64_t pinned_by(const struct look *l, unsigned heap, uintptr_t address, size_t n_bytes,
                         const struct dp_heap_live_block *entry)
{
    if (heap || dp_table_record(DP_KIND_HEAP, entry->record)->heap)
        return 0;
    int64_t pinned = entry->objects > 1 && dp_resident_free_is_placed(address)
                         ? dp_resident_free_pinned_near(&l->heaps, address, n_bytes)
                         : dp_resident_free_pinned_by(&l->heaps, address, n_bytes);
    return pinned < 0 ? dp_resident_jemalloc_pinned_by(&l->jemalloc, n_bytes) : pinned;
}

/* Large blocks are looked at first: if not all may be read, small ones are left out. */
static void look_at_block(struct look *l, uintptr_t key, const struct dp_heap_live_block *entry, uint32_t epoch,
                          enum visit visit)
{
    unsigned heap = key >> 56;
    uintptr_t address = DELTAPROF_KEY(heap, key);
    size_t n_bytes = (size_t)dp_heap_inherited_bytes(entry) / entry->objects;
    struct dp_resident_block block = {0};
    if ((n_bytes >= LARGE_BYTES) == (visit == VISIT_LARGE))
        dp_resident_block_look(&l->reader, address, n_bytes, &block);
    if (visit == VISIT_LARGE && !heap && entry->objects > 1 && dp_resident_free_is_placed(address))
        dp_resident_free_mark(&l->heaps, address, n_bytes);
    int64_t pinned = visit == VISIT_SMALL ? pinned_by(l, heap, address, n_bytes, entry) : 0;
    unsigned age = l->aged_ns ? dp_heap_age_of(l->aged_ns - entry->born_ns) : 0;
    add_to(l, entry->record, epoch && !dp_heap_inherited_is_own(entry, epoch), age, entry->objects, &block, pinned);
}

/* Pages of the table that were never touched stay so. */
static void look_at_blocks(struct look *l, enum visit visit)
{
    struct dp_heap_live_table table = dp_heap_live_blocks_table();
    uint32_t epoch = dp_record_epoch();
    uint64_t words[DP_PAGES_PIECE];
    uintptr_t end = table.start + table.n_slots * table.slot_bytes, piece = dp_page_floor(table.start);
    size_t slot = 0;
    while (piece < end) {
        size_t n = dp_page_ceil(end - piece) / dp_page_bytes(), wanted = n < DP_PAGES_PIECE ? n : DP_PAGES_PIECE;
        if (dp_resident_pages_words(&l->reader.pages, words, piece, wanted) != wanted)
            return;
        for (size_t i = 0; i < wanted; i++, piece += dp_page_bytes()) {
            uintptr_t next = piece + dp_page_bytes();
            bool is_there = words[i] & (DP_PAGES_PRESENT | DP_PAGES_SWAPPED);
            for (; slot < table.n_slots && table.start + slot * table.slot_bytes < next; slot++) {
                uintptr_t key;
                struct dp_heap_live_block entry;
                if (is_there && dp_heap_live_blocks_read(slot, &key, &entry) && entry.record < l->n_records)
                    look_at_block(l, key, &entry, epoch, visit);
            }
        }
    }
}

static void look_at_mappings(struct look *l)
{
    size_t most = dp_heap_mappings_most();
    struct dp_heap_mapped_range *ranges = most ? dp_mem_map(most * sizeof *ranges) : NULL;
    size_t n = ranges ? dp_heap_mappings_copy(ranges, most) : 0;
    for (size_t i = 0; i < n; i++) {
        struct dp_resident_block block = {0};
        dp_resident_block_look(&l->reader, ranges[i].start, ranges[i].end - ranges[i].start, &block);
        if (ranges[i].record < l->n_records)
            add_to(l, ranges[i].record, false, 0, 1, &block, 0);
    }
    dp_mem_unmap(ranges, most * sizeof *ranges);
}

static void find_free(struct look *l, size_t stack_bytes, bool may_ask)
{
    struct dp_resident_mappings mappings = {0};
    if (dp_resident_mappings_read(&mappings, stack_bytes) == 0)
        dp_resident_free_find(&l->heaps, &l->reader, mappings.vmas.at, mappings.vmas.n);
    dp_resident_mappings_fini(&mappings);
    if (may_ask)
        dp_resident_jemalloc_read(&l->jemalloc, &l->heaps.sums);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int take_rows(const struct look *l, const struct dp_rows *rows, struct dp_heap_waste_rows *to)
{
    for (size_t i = 0; i < rows->n; i++) {
        const struct dp_row *row = &rows->at[i];
        unsigned origin = row->entry & DP_ROW_INHERITED, part = row->entry >> DP_ROW_PART_SHIFT;
        unsigned age = part && l->aged_ns ? part - 1 : 0;
        if (row->entry & DP_ROW_SUMMED || row->id >= l->n_records || origin >= l->n_origins || row->values[3] <= 0)
            continue;
        struct dp_heap_waste_row *kept = dp_vec_push(to);
        if (!kept)
            return -ENOMEM;
        kept->id = row->id;
        kept->entry = row->entry;
        memcpy(kept->values, values_of(l, row->id, origin, age), sizeof kept->values);
        int64_t *v = kept->values;
        v[DP_HEAP_WASTE_RESIDENT] = smaller(v[DP_HEAP_WASTE_RESIDENT], row->values[3]);
        v[DP_HEAP_WASTE_SWAPPED] = smaller(v[DP_HEAP_WASTE_SWAPPED], row->values[3] - v[DP_HEAP_WASTE_RESIDENT]);
        v[DP_HEAP_WASTE_ZERO] = smaller(v[DP_HEAP_WASTE_ZERO], v[DP_HEAP_WASTE_RESIDENT]);
        v[DP_HEAP_WASTE_IDLE] = smaller(v[DP_HEAP_WASTE_IDLE], v[DP_HEAP_WASTE_RESIDENT]);
    }
    return 0;
}

/* The rows are estimates, as sampled blocks stand for others. Their sum is limited to the free bytes that were counted.
 */
static void limit_pinned(struct dp_heap_waste_rows *rows, int64_t most_bytes)
{
    double sum = 0;
    for (size_t i = 0; i < rows->n; i++)
        sum += (double)rows->at[i].values[DP_HEAP_WASTE_PINNED];
    for (size_t i = 0; i < rows->n && sum > (double)most_bytes; i++) {
        int64_t *pinned = &rows->at[i].values[DP_HEAP_WASTE_PINNED];
        *pinned = (int64_t)((double)*pinned / sum * (double)most_bytes);
    }
}

int dp_heap_waste_read(const struct dp_rows *rows, size_t stack_bytes, int64_t most_read_bytes, int64_t aged_ns,
                       bool may_ask, struct dp_heap_waste_rows *to, struct dp_resident_free *free,
                       int64_t *unread_bytes)
{
    struct look *l = dp_mem_map(sizeof *l);
    int saved = errno, err = l ? dp_resident_block_open(&l->reader) : -ENOMEM;
    if (!err) {
        l->reader.left_bytes = smaller(l->reader.left_bytes, most_read_bytes);
        l->n_records = dp_table_count(DP_KIND_HEAP);
        l->n_origins = dp_record_epoch() ? 2 : 1;
        l->n_ages = aged_ns ? DP_HEAP_AGES : 1;
        l->aged_ns = aged_ns;
        l->cells = dp_mem_map(cells_bytes(l));
        err = l->cells ? 0 : -ENOMEM;
    }
    if (!err) {
        find_free(l, stack_bytes, may_ask);
        look_at_mappings(l);
        look_at_blocks(l, VISIT_LARGE);
        look_at_blocks(l, VISIT_SMALL);
        err = take_rows(l, rows, to);
        limit_pinned(to, l->heaps.sums.pinned_bytes);
        *free = l->heaps.sums;
        *unread_bytes = l->reader.unread_bytes;
    }
    if (l) {
        dp_resident_free_fini(&l->heaps);
        dp_mem_unmap(l->cells, cells_bytes(l));
        dp_resident_block_close(&l->reader);
        dp_mem_unmap(l, sizeof *l);
    }
    errno = saved;
    return err;
}
