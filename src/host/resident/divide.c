/* SPDX-License-Identifier: MIT */
/*
 * host/resident/divide.c - divides the anonymous resident memory of this process: what is in use by malloc and by
 * registered heaps, what their mappings hold beyond that, stacks, private pages of files, the profiler.
 *
 * A sampled block tells which mapping its allocator took it from. So the memory of any allocator is known by its
 * blocks, without asking it: what is resident in such a mapping, less what is in use there, is held by the allocator.
 * It stays the allocator's if all blocks are freed (resident.c).
 * brk and glibc's arenas are malloc's even where no sample lies in them, and so are large blocks that glibc's malloc
 * mapped alone. A large block may not have been touched: only
 * its resident pages count.
 *
 * Plain system calls: safe in a forked child. The caller holds the guard.
 */
#include "host/resident/resident.h"

#include "base/mem.h"
#include "base/process.h"
#include "host/resident/chunks.h"
#include "host/resident/count.h"
#include "host/resident/mapping_list.h"
#include "host/resident/pages.h"
#include "host/heap/inherited.h"
#include "host/heap/mappings.h"

#include <deltaprof/heap.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define LARGE_BYTES ((uint64_t)128 << 10)
/* Pages that are no block's first, and pages that are looked at: in all and in a mapping. */
#define MISSES      ((size_t)8192)
#define MISSES_EACH ((size_t)64)
#define LOOKS       ((size_t)1 << 17)
#define LOOKS_EACH  ((size_t)1 << 14)
#define LARGE_PAGES (DP_PAGES_LOOKED_AT / dp_page_bytes()) /* pages of large blocks that are looked at, in all */

struct division {
    struct dp_resident_pages pages;
    struct dp_resident_mappings mappings;
    int64_t own_bytes;    /* of the profiler */
    size_t n_large_pages; /* looked at */
    int64_t chunk_bytes;  /* of blocks that glibc's malloc mapped alone */
    double variance;
    struct dp_resident_parts *parts;
};

/* Which share of a block is resident: all of a small one, since its allocator touches what lies around it. */
static double share_of(struct division *d, uintptr_t address, uint64_t n_bytes, const struct dp_vma *vma)
{
    if (n_bytes < LARGE_BYTES)
        return 1;
    uintptr_t start = dp_page_ceil(address), end = dp_page_floor(address + n_bytes);
    size_t n_pages = (end - start) / dp_page_bytes();
    if (d->n_large_pages + n_pages > LARGE_PAGES) {
        double share = (double)vma->anonymous_bytes / (double)(vma->end - vma->start);
        return share < 1 ? share : 1;
    }
    d->n_large_pages += n_pages;
    return (double)dp_resident_pages_exact(&d->pages, start, n_pages) / (double)n_pages;
}

/* The kind of a mapping that holds a block. glibc's malloc unmaps a block that it mapped alone when it is freed. */
static uint8_t kind_with_block(uint8_t kind, uintptr_t address, uint64_t n_bytes)
{
    bool is_mapped_alone = n_bytes >= LARGE_BYTES && address % dp_page_bytes() == 2 * sizeof(size_t);
    if (kind != DP_VMA_MAPPED && kind != DP_VMA_OTHER && kind != DP_VMA_BLOCKS)
        return kind;
    return is_mapped_alone ? DP_VMA_BLOCKS : DP_VMA_ARENA;
}

/*
 * What the allocator's size classes add to a sampled block, which stands for `bytes`. Behind a large block only the
 * rest of its last page was touched.
 */
static void take_rounding(struct division *d, uintptr_t address, uint64_t size, uint64_t bytes)
{
    uint64_t added = dp_resident_class_of(size) - size, touched = added, to_page = -(address + size) % dp_page_bytes();
    if (size >= LARGE_BYTES && touched > to_page)
        touched = to_page;
    double n_blocks = (double)bytes / (double)size;
    d->parts->classes_bytes += (int64_t)(n_blocks * (double)added);
    d->parts->rounding_bytes += (int64_t)(n_blocks * (double)touched);
}

static void take_block(struct division *d, uintptr_t key, const struct dp_heap_live_block *block)
{
    unsigned heap = key >> 56;
    uintptr_t address = DELTAPROF_KEY(heap, key);
    struct dp_vma *vma = dp_vma_find(d->mappings.vmas.at, d->mappings.vmas.n, address);
    if (!vma)
        return; /* freed meanwhile, or without a hook */
    uint64_t bytes = (uint64_t)dp_heap_inherited_bytes(block), size = bytes / block->objects;
    double share = share_of(d, address, size, vma), resident = share * (double)bytes;
    unsigned owner = heap ? heap : dp_table_record(DP_KIND_HEAP, block->record)->heap; /* host/heap/sample_page.h */
    d->parts->in_use_bytes[owner] += (int64_t)resident;
    d->parts->absent_bytes += (int64_t)((double)bytes - resident);
    if (!heap)
        take_rounding(d, address, size, bytes);
    d->variance += share * share * (double)bytes * (double)(bytes - size);
    vma->kind = kind_with_block(vma->kind, address, size);
}

/* The slots of a page of the table; one that crosses into it was read with the page before. */
static void take_slots(struct division *d, const struct dp_heap_live_table *table, uintptr_t page)
{
    size_t from = page <= table->start ? 0 : (page - table->start + table->slot_bytes - 1) / table->slot_bytes;
    for (size_t i = from; i < table->n_slots && table->start + i * table->slot_bytes < page + dp_page_bytes(); i++) {
        uintptr_t key;
        struct dp_heap_live_block block;
        if (dp_heap_live_blocks_read(i, &key, &block))
            take_block(d, key, &block);
    }
}

/* Pages of the table that were never touched stay so: even to read them would map pages. */
static void take_blocks(struct division *d)
{
    struct dp_heap_live_table table = dp_heap_live_blocks_table();
    uint64_t words[DP_PAGES_PIECE];
    uintptr_t page = dp_page_floor(table.start), end = table.start + table.n_slots * table.slot_bytes;
    while (page < end) {
        size_t n = dp_page_ceil(end - page) / dp_page_bytes(), wanted = n < DP_PAGES_PIECE ? n : DP_PAGES_PIECE;
        if (dp_resident_pages_words(&d->pages, words, page, wanted) != wanted)
            return;
        for (size_t i = 0; i < wanted; i++, page += dp_page_bytes())
            if (words[i] & (DP_PAGES_PRESENT | DP_PAGES_SWAPPED))
                take_slots(d, &table, page);
    }
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What the program has mapped itself, where that is recorded: its bytes are taken from the mappings of the kernel. */
static void take_mapped(struct division *d)
{
    size_t most = dp_heap_mappings_most();
    struct dp_heap_mapped_range *ranges = most ? dp_mem_map(most * sizeof *ranges) : NULL;
    size_t n = ranges ? dp_heap_mappings_copy(ranges, most) : 0;
    for (size_t i = 0; i < n; i++)
        for (uintptr_t at = ranges[i].start, end; at < ranges[i].end; at = end) {
            struct dp_vma *vma = dp_vma_find(d->mappings.vmas.at, d->mappings.vmas.n, at);
            end = vma && vma->end < ranges[i].end ? vma->end : ranges[i].end;
            if (!vma || vma->kind == DP_VMA_SHARED)
                continue;
            int64_t bytes = smaller(dp_resident_pages_estimate(&d->pages, at, end), vma->anonymous_bytes);
            vma->anonymous_bytes -= bytes;
            d->parts->mapped_bytes += bytes;
        }
    dp_mem_unmap(ranges, most * sizeof *ranges);
}

/* Large blocks that glibc's malloc mapped alone: their bytes are taken from the mappings of the kernel. */
static void take_chunks(struct division *d)
{
    struct dp_resident_chunks_limits left = {MISSES, LOOKS};
    int mem = d->pages.pagemap < 0 ? -1 : dp_process_open("mem");
    for (size_t i = 0; i < d->mappings.vmas.n && mem >= 0; i++) {
        struct dp_vma *vma = &d->mappings.vmas.at[i];
        const struct dp_resident_chunks_limits given = {left.misses < MISSES_EACH ? left.misses : MISSES_EACH,
                                                        left.pages < LOOKS_EACH ? left.pages : LOOKS_EACH};
        struct dp_resident_chunks_limits limits = given;
        size_t n_bytes;
        if (vma->kind != DP_VMA_MAPPED || !vma->is_writable || vma->anonymous_bytes < (int64_t)dp_page_bytes())
            continue;
        for (uintptr_t at = vma->start; (at = dp_resident_chunks_next(mem, &d->pages, vma, at, &n_bytes, &limits));
             at += n_bytes) {
            int64_t bytes = smaller(dp_resident_pages_estimate(&d->pages, at, at + n_bytes), vma->anonymous_bytes);
            vma->anonymous_bytes -= bytes;
            d->chunk_bytes += bytes;
        }
        left.misses -= given.misses - limits.misses;
        left.pages -= given.pages - limits.pages;
    }
    if (mem >= 0)
        close(mem);
}

/* Newton's method, since a host may have no libm. */
static int64_t square_root(double square)
{
    double root = square;
    for (int i = 0; i < 100 && root > 0; i++)
        root = (root + square / root) / 2;
    return (int64_t)root;
}

/* Parts never sum up to more than there is: of what is estimated, the rest is taken. */
static void add_up(struct division *d, int64_t anon_bytes)
{
    struct dp_resident_parts *parts = d->parts;
    int64_t kinds[DP_VMA_KINDS] = {0}, in_use = 0, rest = anon_bytes;
    for (size_t i = 0; i < d->mappings.vmas.n; i++)
        kinds[d->mappings.vmas.at[i].kind] += d->mappings.vmas.at[i].anonymous_bytes;
    parts->stacks_bytes = smaller(kinds[DP_VMA_STACK], rest);
    rest -= parts->stacks_bytes;
    parts->files_bytes = smaller(kinds[DP_VMA_FILE], rest);
    rest -= parts->files_bytes;
    parts->self_bytes = smaller(d->own_bytes, rest);
    rest -= parts->self_bytes;
    parts->mapped_bytes = smaller(parts->mapped_bytes, rest);
    rest -= parts->mapped_bytes;
    for (unsigned heap = 0; heap < DP_RESIDENT_HEAPS; heap++) {
        int64_t *bytes = &parts->in_use_bytes[heap];
        *bytes = smaller(*bytes, rest);
        rest -= *bytes;
        in_use += *bytes;
    }
    int64_t mapped = d->chunk_bytes + kinds[DP_VMA_BRK] + kinds[DP_VMA_ARENA] + kinds[DP_VMA_BLOCKS];
    mapped = mapped > in_use ? smaller(mapped - in_use, rest) : 0;
    parts->rounding_bytes = smaller(parts->rounding_bytes, mapped);
    parts->held_bytes = mapped - parts->rounding_bytes;
    parts->error_bytes = square_root(d->variance);
}

int dp_resident_divide(const struct dp_resident *resident, size_t stack_bytes, struct dp_resident_parts *parts)
{
    struct division d = {.parts = parts};
    int saved = errno, err = 0;
    memset(parts, 0, sizeof *parts);
    d.pages.pagemap = dp_process_open("pagemap"); /* -1: mincore is asked */
    err = dp_resident_mappings_read(&d.mappings, stack_bytes);
    if (!err)
        err = dp_resident_count(&d.pages, d.mappings.vmas.at, d.mappings.vmas.n, resident->anon_bytes, &d.own_bytes);
    if (!err) {
        dp_resident_known_recall(d.mappings.vmas.at, d.mappings.vmas.n);
        take_mapped(&d);
        take_chunks(&d);
        take_blocks(&d);
        dp_resident_known_keep(d.mappings.vmas.at, d.mappings.vmas.n);
        add_up(&d, resident->anon_bytes);
    }
    if (d.pages.pagemap >= 0)
        close(d.pages.pagemap);
    dp_resident_mappings_fini(&d.mappings);
    errno = saved;
    return err;
}
