/* SPDX-License-Identifier: MIT */
/*
 * report/resident_parts.c - divides the anonymous resident memory of this process: what is in use by malloc and by
 * registered heaps, what their mappings hold beyond that, stacks, private pages of files, the profiler.
 *
 * Which pages are resident comes from /proc/self/pagemap, a word for each page. Unlike smaps it locks the address space
 * for 2 MiB at a time, so that no thread of the program waits for it. A process that changed its user may not read it:
 * then mincore says which pages are in memory, and all pages of writable file mappings that are count as private. A
 * page that was only read is the kernel's page of zeros, which pagemap does not tell from one shared with a forked
 * process: of pages that are not this process's alone, as many count as RssAnon leaves room for. Of address space
 * beyond LOOKED_AT_BYTES every k-th piece is looked at and counts k times.
 *
 * A sampled block tells which mapping its allocator took it from. So the memory of any allocator is known by its
 * blocks, without asking it: what is resident in such a mapping, less what is in use there, is held by the allocator.
 * It stays the allocator's if all blocks are freed (resident.c).
 * brk and glibc's arenas are malloc's even where no sample lies in them. A large block may not have been touched: only
 * its resident pages count.
 *
 * Plain system calls: safe in a forked child. The caller holds the guard.
 */
#include "report/resident.h"

#include "base/mem.h"
#include "base/process.h"
#include "store/inherited.h"
#include "store/mappings.h"

#include <deltaprof/heap.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BITS       12
#define PAGE_BYTES      ((size_t)1 << PAGE_BITS)
#define PIECE_PAGES     ((size_t)512) /* 2 MiB: a table of the last level */
#define LOOKED_AT_BYTES ((size_t)1 << 30)
#define LARGE_BYTES     ((uint64_t)128 << 10)
#define LARGE_PAGES     ((size_t)1 << 16) /* pages of large blocks that are looked at, in all */

#define PRESENT        (UINT64_C(1) << 63)
#define SWAPPED        (UINT64_C(1) << 62)
#define FILE_OR_SHARED (UINT64_C(1) << 61)
#define SOLE           (UINT64_C(1) << 56) /* mapped once */

/* SOLE, and the others. */
struct pages {
    size_t n_sole, n_others;
};

struct division {
    int pagemap;
    struct {
        struct dp_vma *at;
        size_t n, cap;
    } vmas;
    struct {
        char *at;
        size_t n, cap;
    } text;
    struct {
        struct pages *at;
        size_t n, cap;
    } pages;              /* of each mapping */
    size_t step;          /* one piece of so many is looked at */
    double others_share;  /* of pages that are not SOLE, those that are no page of zeros */
    size_t n_large_pages; /* looked at */
    double variance;
    struct dp_resident_parts *parts;
};

static int read_text(struct division *d)
{
    int fd = dp_process_open("maps"), err = fd < 0 ? -errno : 0;
    ssize_t got = 1;
    while (!err && got) {
        char *room = dp_vec_room(&d->text, (size_t)64 << 10);
        got = room ? read(fd, room, (size_t)64 << 10) : -1;
        if (got < 0 && !(room && errno == EINTR))
            err = room ? -errno : -ENOMEM;
        d->text.n += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    return err;
}

static int read_mappings(struct division *d, size_t stack_bytes)
{
    const struct dp_vma_cuts cuts = {"", stack_bytes};
    int err = read_text(d);
    const char *end = d->text.at + d->text.n, *line_end;
    for (const char *p = d->text.at; !err && p < end; p = line_end + 1) {
        struct dp_vma vma, *kept;
        line_end = memchr(p, '\n', (size_t)(end - p));
        if (!line_end)
            break;
        if (!dp_vma_parse(p, (size_t)(line_end - p), &vma))
            continue;
        const struct dp_vma *below = d->vmas.n ? &d->vmas.at[d->vmas.n - 1] : NULL;
        struct dp_vma rest;
        bool is_cut = dp_vma_cut(&cuts, below, &vma, &rest);
        if (!(kept = dp_vec_room(&d->vmas, 2)))
            return -ENOMEM;
        kept[0] = vma;
        if (is_cut)
            kept[1] = rest;
        d->vmas.n += is_cut ? 2 : 1;
    }
    dp_vma_classify(d->vmas.at, d->vmas.n);
    return err;
}

/* The same from mincore, which does not tell pages of files from others. A range with a hole has none. */
static size_t ask_mincore(uint64_t *words, uintptr_t start, size_t n_pages)
{
    unsigned char is_in_core[PIECE_PAGES];
    if (mincore((void *)start, n_pages << PAGE_BITS, is_in_core))
        return 0;
    for (size_t i = 0; i < n_pages; i++)
        words[i] = is_in_core[i] & 1 ? PRESENT : 0;
    return n_pages;
}

/* The words of n_pages, at most PIECE_PAGES. The number that the kernel gave. */
static size_t read_words(const struct division *d, uint64_t *words, uintptr_t start, size_t n_pages)
{
    if (d->pagemap < 0)
        return ask_mincore(words, start, n_pages);
    ssize_t got = pread(d->pagemap, words, n_pages * sizeof *words, (off_t)((start >> PAGE_BITS) * sizeof *words));
    return got > 0 ? (size_t)got / sizeof *words : 0;
}

/* Adds the anonymous resident pages among n_pages from `start`. */
static void add_pages(const struct division *d, uintptr_t start, size_t n_pages, struct pages *pages)
{
    uint64_t words[PIECE_PAGES];
    for (size_t at = 0; at < n_pages; at += PIECE_PAGES) {
        size_t wanted = n_pages - at < PIECE_PAGES ? n_pages - at : PIECE_PAGES;
        size_t got = read_words(d, words, start + (at << PAGE_BITS), wanted);
        for (size_t i = 0; i < got; i++) {
            bool counts = (words[i] & PRESENT) && !(words[i] & FILE_OR_SHARED);
            pages->n_sole += counts && (words[i] & SOLE);
            pages->n_others += counts && !(words[i] & SOLE);
        }
    }
}

static size_t counted(const struct division *d, const struct pages *pages)
{
    return pages->n_sole + (size_t)(d->others_share * (double)pages->n_others);
}

static size_t count_pages(const struct division *d, uintptr_t start, size_t n_pages)
{
    struct pages pages = {0};
    add_pages(d, start, n_pages, &pages);
    return counted(d, &pages);
}

/* The same, looking at one piece of every `step` only. */
static struct pages look(const struct division *d, uintptr_t start, uintptr_t end, size_t step)
{
    struct pages pages = {0};
    size_t n_pages = (end - start) >> PAGE_BITS;
    if (step == 1 || n_pages < step * PIECE_PAGES) {
        add_pages(d, start, n_pages, &pages);
        return pages;
    }
    for (size_t at = 0; at < n_pages; at += step * PIECE_PAGES)
        add_pages(d, start + (at << PAGE_BITS), n_pages - at < PIECE_PAGES ? n_pages - at : PIECE_PAGES, &pages);
    return (struct pages){pages.n_sole * step, pages.n_others * step};
}

static int64_t estimate(const struct division *d, uintptr_t start, uintptr_t end, size_t step)
{
    struct pages pages = look(d, start, end, step);
    return (int64_t)(counted(d, &pages) << PAGE_BITS);
}

/* Address space that a program only reserved is left out. */
static bool is_looked_at(const struct division *d, const struct dp_vma *vma)
{
    if (d->pagemap < 0 && !vma->is_anonymous && !vma->is_writable)
        return false;
    return vma->kind != DP_VMA_SHARED && (vma->is_accessible || vma->end - vma->start <= LOOKED_AT_BYTES) &&
           (vma->kind != DP_VMA_FILE || vma->end - vma->start <= LOOKED_AT_BYTES || vma->is_writable);
}

static double share_of_others(const struct division *d, const struct pages *all, int64_t anon_bytes)
{
    int64_t n_left = (anon_bytes >> PAGE_BITS) - (int64_t)all->n_sole;
    if (d->pagemap < 0 || !all->n_others || n_left >= (int64_t)all->n_others)
        return 1;
    return n_left > 0 ? (double)n_left / (double)all->n_others : 0;
}

static int count_resident(struct division *d, int64_t anon_bytes)
{
    size_t sum = 0;
    struct pages *pages = dp_vec_room(&d->pages, d->vmas.n + 1), all = {0};
    if (!pages)
        return -ENOMEM;
    for (size_t i = 0; i < d->vmas.n; i++)
        sum += is_looked_at(d, &d->vmas.at[i]) ? d->vmas.at[i].end - d->vmas.at[i].start : 0;
    d->step = 1 + sum / LOOKED_AT_BYTES;
    for (size_t i = 0; i < d->vmas.n; i++) {
        const struct dp_vma *vma = &d->vmas.at[i];
        pages[i] = is_looked_at(d, vma) ? look(d, vma->start, vma->end, d->step) : (struct pages){0};
        all.n_sole += pages[i].n_sole;
        all.n_others += pages[i].n_others;
    }
    d->others_share = share_of_others(d, &all, anon_bytes);
    for (size_t i = 0; i < d->vmas.n; i++)
        d->vmas.at[i].anonymous_bytes = (int64_t)(counted(d, &pages[i]) << PAGE_BITS);
    return 0;
}

/* Which share of a block is resident: all of a small one, since its allocator touches what lies around it. */
static double share_of(struct division *d, uintptr_t address, uint64_t n_bytes, const struct dp_vma *vma)
{
    if (n_bytes < LARGE_BYTES)
        return 1;
    uintptr_t start = (address + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1), end = (address + n_bytes) & ~(PAGE_BYTES - 1);
    size_t n_pages = (end - start) >> PAGE_BITS;
    if (d->n_large_pages + n_pages > LARGE_PAGES) {
        double share = (double)vma->anonymous_bytes / (double)(vma->end - vma->start);
        return share < 1 ? share : 1;
    }
    d->n_large_pages += n_pages;
    return (double)count_pages(d, start, n_pages) / (double)n_pages;
}

/* The kind of a mapping that holds a block. glibc's malloc unmaps a block that it mapped alone when it is freed. */
static uint8_t kind_with_block(uint8_t kind, uintptr_t address, uint64_t n_bytes)
{
    bool is_mapped_alone = n_bytes >= LARGE_BYTES && (address & (PAGE_BYTES - 1)) == 2 * sizeof(size_t);
    if (kind != DP_VMA_MAPPED && kind != DP_VMA_OTHER && kind != DP_VMA_BLOCKS)
        return kind;
    return is_mapped_alone ? DP_VMA_BLOCKS : DP_VMA_ARENA;
}

static void take_block(struct division *d, uintptr_t key, const struct dp_live_block *block)
{
    unsigned heap = key >> 56;
    uintptr_t address = DELTAPROF_KEY(heap, key);
    struct dp_vma *vma = dp_vma_find(d->vmas.at, d->vmas.n, address);
    if (!vma)
        return; /* freed meanwhile, or without a hook */
    uint64_t bytes = (uint64_t)dp_inherited_bytes(block), size = bytes / block->objects;
    double share = share_of(d, address, size, vma), resident = share * (double)bytes;
    d->parts->in_use_bytes[heap] += (int64_t)resident;
    d->parts->absent_bytes += (int64_t)((double)bytes - resident);
    d->variance += share * share * (double)bytes * (double)(bytes - size);
    vma->kind = kind_with_block(vma->kind, address, size);
}

/* The slots of a page of the table; one that crosses into it was read with the page before. */
static void take_slots(struct division *d, const struct dp_live_table *table, uintptr_t page)
{
    size_t from = page <= table->start ? 0 : (page - table->start + table->slot_bytes - 1) / table->slot_bytes;
    for (size_t i = from; i < table->n_slots && table->start + i * table->slot_bytes < page + PAGE_BYTES; i++) {
        uintptr_t key;
        struct dp_live_block block;
        if (dp_live_blocks_read(i, &key, &block))
            take_block(d, key, &block);
    }
}

/* Pages of the table that were never touched stay so: even to read them would map pages. */
static void take_blocks(struct division *d)
{
    struct dp_live_table table = dp_live_blocks_table();
    uint64_t words[PIECE_PAGES];
    uintptr_t page = table.start & ~(PAGE_BYTES - 1), end = table.start + table.n_slots * table.slot_bytes;
    while (page < end) {
        size_t n = (end - page + PAGE_BYTES - 1) >> PAGE_BITS, wanted = n < PIECE_PAGES ? n : PIECE_PAGES;
        if (read_words(d, words, page, wanted) != wanted)
            return;
        for (size_t i = 0; i < wanted; i++, page += PAGE_BYTES)
            if (words[i] & (PRESENT | SWAPPED))
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
    size_t most = dp_mappings_most();
    struct dp_mapped_range *ranges = most ? dp_mem_map(most * sizeof *ranges) : NULL;
    size_t n = ranges ? dp_mappings_copy(ranges, most) : 0;
    for (size_t i = 0; i < n; i++)
        for (uintptr_t at = ranges[i].start, end; at < ranges[i].end; at = end) {
            struct dp_vma *vma = dp_vma_find(d->vmas.at, d->vmas.n, at);
            end = vma && vma->end < ranges[i].end ? vma->end : ranges[i].end;
            if (!vma || vma->kind == DP_VMA_SHARED)
                continue;
            int64_t bytes = smaller(estimate(d, at, end, d->step), vma->anonymous_bytes);
            vma->anonymous_bytes -= bytes;
            d->parts->mapped_bytes += bytes;
        }
    dp_mem_unmap(ranges, most * sizeof *ranges);
}

/* Newton's method, since a host may have no libm. */
static int64_t square_root(double square)
{
    double root = square;
    for (int i = 0; i < 100 && root > 0; i++)
        root = (root + square / root) / 2;
    return (int64_t)root;
}

/* The profiler's own memory. Its shared mappings are not anonymous. */
static int64_t own_bytes(const struct division *d)
{
    uintptr_t start;
    size_t n_bytes, n_pages = 0;
    for (unsigned i = 0; i < DP_MEM_MAPPINGS; i++)
        if (dp_mem_mapping(i, &start, &n_bytes))
            n_pages += count_pages(d, start, (n_bytes + PAGE_BYTES - 1) >> PAGE_BITS);
    return (int64_t)(n_pages << PAGE_BITS);
}

/* Parts never sum up to more than there is: of what is estimated, the rest is taken. */
static void add_up(struct division *d, int64_t anon_bytes)
{
    struct dp_resident_parts *parts = d->parts;
    int64_t kinds[DP_VMA_KINDS] = {0}, in_use = 0, rest = anon_bytes;
    for (size_t i = 0; i < d->vmas.n; i++)
        kinds[d->vmas.at[i].kind] += d->vmas.at[i].anonymous_bytes;
    parts->stacks_bytes = smaller(kinds[DP_VMA_STACK], rest);
    rest -= parts->stacks_bytes;
    parts->files_bytes = smaller(kinds[DP_VMA_FILE], rest);
    rest -= parts->files_bytes;
    parts->self_bytes = smaller(own_bytes(d), rest);
    rest -= parts->self_bytes;
    parts->mapped_bytes = smaller(parts->mapped_bytes, rest);
    rest -= parts->mapped_bytes;
    for (unsigned heap = 0; heap < DP_RESIDENT_HEAPS; heap++) {
        int64_t *bytes = &parts->in_use_bytes[heap];
        *bytes = smaller(*bytes, rest);
        rest -= *bytes;
        in_use += *bytes;
    }
    int64_t mapped = kinds[DP_VMA_BRK] + kinds[DP_VMA_ARENA] + kinds[DP_VMA_BLOCKS];
    parts->held_bytes = mapped > in_use ? smaller(mapped - in_use, rest) : 0;
    parts->error_bytes = square_root(d->variance);
}

int dp_resident_divide(const struct dp_resident *resident, size_t stack_bytes, struct dp_resident_parts *parts)
{
    struct division d = {.parts = parts};
    int saved = errno, err = 0;
    memset(parts, 0, sizeof *parts);
    d.pagemap = dp_process_open("pagemap"); /* -1: mincore is asked */
    err = read_mappings(&d, stack_bytes);
    if (!err)
        err = count_resident(&d, resident->anon_bytes);
    if (!err) {
        dp_resident_known_recall(d.vmas.at, d.vmas.n);
        take_mapped(&d);
        take_blocks(&d);
        dp_resident_known_keep(d.vmas.at, d.vmas.n);
        add_up(&d, resident->anon_bytes);
    }
    if (d.pagemap >= 0)
        close(d.pagemap);
    dp_vec_fini(&d.vmas);
    dp_vec_fini(&d.text);
    dp_vec_fini(&d.pages);
    errno = saved;
    return err;
}
