/* SPDX-License-Identifier: MIT */
/*
 * host/resident/free_chunks.c - follows the chain of chunks of each heap of glibc's malloc, page by page.
 *
 * malloc_trim gives back the whole pages of a free chunk that begin behind its header and list links (six words), and
 * the end of the main heap but for less than a page. The end of a thread's arena (its top chunk) it leaves.
 *
 * Small chunks in a fastbin are marked as in use, but malloc_trim first joins them with their free neighbours. Such a
 * chunk is known by its link to the next one of its list, which has the same size. From glibc 2.32 on the link is
 * xor'ed with its own address, shifted right by 12. The last one of a list is not known in older versions, where its
 * link is 0.
 *
 * A thread's cache (tcache) is a chunk of a known size with the lengths of its lists (glibc 2.30 and later).
 */
#include "host/resident/free_chunks.h"

#include "base/mem.h"

#include <stdbool.h>
#include <unistd.h>

enum {
    PREVIOUS_IN_USE = 1,
    IS_MMAPPED = 2,
    OF_ARENA = 4,
    FLAGS = 7,
    ALIGNMENT = 16,
    HEADER_BYTES = 16, /* before what the program gets */
    LINK_BYTES = 48,   /* of a free chunk, at its begin */
    LEAST_BYTES = 32,
    FAST_MOST_BYTES = 160, /* of a chunk in a fastbin, whatever mallopt says */
    LINK_SHIFT = 12,
    FIRST_LEAST = 8, /* chunks that must follow each other, for a heap to begin there */
};
#define WINDOW      ((size_t)256 << 10)
#define ARENA_BYTES ((uintptr_t)64 << 20) /* the most of one heap of an arena, and what it is aligned to */

struct walk {
    struct dp_resident_block_reader *pages;
    struct dp_resident_free_heap *heap;
    struct dp_resident_free *sums;
    bool is_arena;
    uintptr_t window_start;
    size_t n_window;
    unsigned char *window; /* WINDOW bytes */
    uintptr_t free_start;  /* of the free chunks that follow each other up to here; 0: the last one is in use */
};

/* The word at an aligned address of the heap. False: it cannot be read. */
static bool read_word(struct walk *w, uintptr_t at, size_t *word)
{
    if (at - w->window_start >= w->n_window || w->window_start + w->n_window - at < sizeof *word) {
        size_t wanted = w->heap->end - at < WINDOW ? w->heap->end - at : WINDOW;
        ssize_t got = pread(w->pages->mem, w->window, wanted, (off_t)at);
        w->window_start = at;
        w->n_window = got > 0 ? (size_t)got : 0;
        if (w->n_window < sizeof *word)
            return false;
    }
    __builtin_memcpy(word, w->window + (at - w->window_start), sizeof *word);
    return true;
}

/* The size word of a chunk; 0: there is none, or it cannot be one of this heap. Free chunks have no mark of an arena.
 */
static size_t chunk_word(struct walk *w, uintptr_t chunk)
{
    size_t word = 0;
    if (w->heap->end - chunk < LEAST_BYTES || !read_word(w, chunk + sizeof word, &word))
        return 0;
    size_t n_bytes = word & ~(size_t)FLAGS;
    bool fits = n_bytes >= LEAST_BYTES && n_bytes % ALIGNMENT == 0 && n_bytes <= w->heap->end - chunk;
    return fits && !(word & IS_MMAPPED) && (w->is_arena || !(word & OF_ARENA)) ? word : 0;
}

/* Where the chain begins: in an arena behind glibc's own structures. 0: nowhere. */
static uintptr_t find_first(struct walk *w)
{
    for (uintptr_t first = w->heap->start; first < w->heap->start + DP_PAGE_LEAST; first += ALIGNMENT) {
        uintptr_t at = first;
        size_t word = chunk_word(w, at);
        bool is_chain = word & PREVIOUS_IN_USE;
        for (int i = 0; is_chain && i < FIRST_LEAST && at + (word & ~(size_t)FLAGS) < w->heap->end; i++) {
            at += word & ~(size_t)FLAGS;
            is_chain = (word = chunk_word(w, at)) != 0;
        }
        if (is_chain)
            return first;
    }
    return 0;
}

/* Whether a chunk of n_bytes begins at an address, which may be any. */
static bool is_chunk_of(struct walk *w, uintptr_t chunk, size_t n_bytes)
{
    size_t word;
    return chunk % ALIGNMENT == 0 && chunk >= w->heap->start && chunk < w->heap->end &&
           pread(w->pages->mem, &word, sizeof word, (off_t)(chunk + sizeof word)) == sizeof word &&
           (word & ~(size_t)FLAGS) == n_bytes;
}

/* Whether a chunk that is marked as in use is in a fastbin. */
static bool is_in_fastbin(struct walk *w, uintptr_t chunk, size_t n_bytes)
{
    uintptr_t place = chunk + HEADER_BYTES;
    size_t link;
    if (n_bytes > FAST_MOST_BYTES || !read_word(w, place, &link))
        return false;
    uintptr_t next = link ^ place >> LINK_SHIFT;
    return !next || is_chunk_of(w, next, n_bytes) || is_chunk_of(w, link, n_bytes);
}

static bool is_held(struct walk *w, uintptr_t page)
{
    return dp_resident_block_word(w->pages, page) & (DP_PAGES_PRESENT | DP_PAGES_SWAPPED);
}

/* The whole pages of [from, to) that are held. */
static int64_t held_bytes(struct walk *w, uintptr_t from, uintptr_t to)
{
    int64_t n_bytes = 0;
    for (uintptr_t page = dp_page_ceil(from); page + dp_page_bytes() <= to; page += dp_page_bytes())
        n_bytes += is_held(w, page) ? (int64_t)dp_page_bytes() : 0;
    return n_bytes;
}

/* The bytes of the chunks in a thread's cache, if the chunk is one: a count and a list for each size. */
static int64_t cached_bytes(struct walk *w, uintptr_t chunk, size_t n_bytes)
{
    enum { SIZES = 64 };
    struct {
        uint16_t counts[SIZES];
        uintptr_t lists[SIZES];
    } cache;
    int64_t sum = 0;
    if (n_bytes != sizeof cache + HEADER_BYTES ||
        pread(w->pages->mem, &cache, sizeof cache, (off_t)(chunk + HEADER_BYTES)) != sizeof cache)
        return 0;
    for (size_t i = 0; i < SIZES; i++) {
        if (!cache.counts[i] != !cache.lists[i] || cache.lists[i] % ALIGNMENT)
            return 0;
        sum += (int64_t)(cache.counts[i] * (LEAST_BYTES + i * ALIGNMENT));
    }
    return sum < (int64_t)(w->heap->end - w->heap->start) ? sum : 0;
}

static void take_chunk(struct walk *w, uintptr_t chunk, size_t n_bytes, bool is_free)
{
    w->sums->cached_bytes += is_free ? 0 : cached_bytes(w, chunk, n_bytes);
    uintptr_t end = chunk + n_bytes;
    for (uintptr_t page = dp_page_floor(chunk); page < end && w->heap->pages; page += dp_page_bytes()) {
        struct dp_resident_page_use *use = &w->heap->pages[(page - w->heap->start) / dp_page_bytes()];
        uintptr_t from = chunk > page ? chunk : page, to = end < page + dp_page_bytes() ? end : page + dp_page_bytes();
        if (is_free)
            use->n_free = (uint16_t)(use->n_free + (to - from));
        else
            use->n_chunks++;
    }
}

/* The free chunks before `end`, as if they were joined. */
static void end_free(struct walk *w, uintptr_t end)
{
    int64_t held = w->free_start ? held_bytes(w, w->free_start + LINK_BYTES, end) : 0;
    w->sums->trim_bytes += held;
    w->sums->arena_bytes += w->is_arena ? held : 0;
    w->free_start = 0;
}

/* The last chunk: what the heap has not used yet, or no more. */
static void take_top(struct walk *w, uintptr_t chunk)
{
    if (w->free_start)
        chunk = w->free_start;
    int64_t held = held_bytes(w, chunk + LINK_BYTES, w->heap->end);
    w->free_start = 0;
    if (w->is_arena) {
        w->sums->arena_bytes += held;
        w->sums->top_bytes += held;
    } else {
        w->sums->trim_bytes += held;
    }
}

static void take_pages(struct walk *w)
{
    const struct dp_resident_free_heap *heap = w->heap;
    int64_t pinned = 0;
    for (size_t i = 0; heap->pages && i < (heap->end - heap->start) / dp_page_bytes(); i++) {
        struct dp_resident_page_use *use = &heap->pages[i];
        if (use->n_free && !is_held(w, heap->start + i * dp_page_bytes()))
            use->n_free = 0;
        pinned += use->n_chunks ? use->n_free : 0;
    }
    w->sums->pinned_bytes += pinned;
    w->sums->arena_bytes += w->is_arena ? pinned : 0;
}

static void follow_chain(struct walk *w)
{
    uintptr_t chunk = find_first(w), end = w->heap->end;
    size_t word = chunk ? chunk_word(w, chunk) : 0;
    w->sums->heap_bytes += (int64_t)(end - w->heap->start);
    while (word) {
        size_t n_bytes = word & ~(size_t)FLAGS;
        uintptr_t next = chunk + n_bytes;
        if (next + LEAST_BYTES > end) {
            take_top(w, chunk);
            break;
        }
        size_t after = chunk_word(w, next);
        if (!after)
            break;
        bool is_free = !(after & PREVIOUS_IN_USE) || is_in_fastbin(w, chunk, n_bytes);
        take_chunk(w, chunk, n_bytes, is_free);
        if (!is_free)
            end_free(w, chunk);
        else if (!w->free_start)
            w->free_start = chunk;
        chunk = next;
        word = after;
    }
    end_free(w, chunk);
    bool is_complete = word && chunk + (word & ~(size_t)FLAGS) + LEAST_BYTES > end;
    w->sums->unknown_bytes += is_complete ? 0 : (int64_t)(end - (chunk ? chunk : w->heap->start));
    take_pages(w);
}

static void add_heap(struct walk *w, struct dp_resident_free_heaps *heaps, uintptr_t start, uintptr_t end)
{
    size_t n_pages = (end - start) / dp_page_bytes();
    struct dp_resident_free_heap *heap = &heaps->at[heaps->n++];
    *heap = (struct dp_resident_free_heap){start, end, dp_mem_map(n_pages * sizeof *heap->pages)};
    w->heap = heap;
    w->n_window = 0;
    follow_chain(w);
}

/* Whether a heap of an arena begins at an address; *is_first: it is the arena's first one. */
static bool is_heap_of_arena(struct walk *w, uintptr_t at, bool *is_first)
{
    enum { ARENA_LEAST = 32, ARENA_MOST = 128 }; /* where the arena's state may lie in its first heap */
    struct {
        uintptr_t arena, previous;
        size_t n_bytes, n_writable;
    } header;
    if (pread(w->pages->mem, &header, sizeof header, (off_t)at) != sizeof header)
        return false;
    uintptr_t place = header.arena % ARENA_BYTES;
    *is_first = !header.previous;
    return place >= ARENA_LEAST && place < ARENA_MOST && header.previous % ARENA_BYTES == 0 && header.n_bytes &&
           header.n_bytes % dp_page_bytes() == 0 && header.n_bytes <= header.n_writable &&
           header.n_writable <= ARENA_BYTES;
}

/* Where memory of one kind ends that begins with a mapping. A fork leaves a heap in several mappings side by side. */
static uintptr_t end_of(const struct dp_vma *vmas, size_t n_vmas, size_t first, uintptr_t limit)
{
    uintptr_t end = vmas[first].end;
    for (size_t i = first + 1; i < n_vmas && end < limit && vmas[i].start == end; i++) {
        bool goes_on = vmas[first].kind == DP_VMA_BRK ? vmas[i].kind == DP_VMA_BRK
                                                      : vmas[i].kind == DP_VMA_MAPPED && vmas[i].is_writable;
        if (!goes_on)
            break;
        end = vmas[i].end;
    }
    return end < limit ? end : limit;
}

/* The heaps of arenas in a mapping. The kernel joins those that are used up to their end with the next one. */
static void add_arenas(struct walk *w, struct dp_resident_free_heaps *heaps, const struct dp_vma *vmas, size_t n_vmas,
                       size_t i)
{
    for (uintptr_t at = vmas[i].start; at < vmas[i].end && heaps->n < DP_FREE_HEAPS_MOST; at += ARENA_BYTES) {
        bool is_first;
        if (at % ARENA_BYTES || !is_heap_of_arena(w, at, &is_first))
            return;
        w->is_arena = true;
        heaps->sums.n_arenas += is_first;
        add_heap(w, heaps, at, end_of(vmas, n_vmas, i, at + ARENA_BYTES));
    }
}

void dp_resident_free_find(struct dp_resident_free_heaps *heaps, struct dp_resident_block_reader *pages,
                           const struct dp_vma *vmas, size_t n_vmas)
{
    struct walk w = {.pages = pages, .sums = &heaps->sums, .window = pages->mem < 0 ? NULL : dp_mem_map(WINDOW)};
    heaps->n = 0;
    heaps->sums = (struct dp_resident_free){0};
    for (size_t i = 0; i < n_vmas && w.window && heaps->n < DP_FREE_HEAPS_MOST; i++) {
        bool goes_on = i && vmas[i - 1].kind == DP_VMA_BRK && vmas[i - 1].end == vmas[i].start;
        w.is_arena = false;
        if (vmas[i].kind == DP_VMA_BRK && !goes_on)
            add_heap(&w, heaps, vmas[i].start, end_of(vmas, n_vmas, i, UINTPTR_MAX));
        else if (vmas[i].kind == DP_VMA_ARENA || (vmas[i].kind == DP_VMA_MAPPED && vmas[i].is_writable))
            add_arenas(&w, heaps, vmas, n_vmas, i);
    }
    dp_mem_unmap(w.window, WINDOW);
}

void dp_resident_free_fini(struct dp_resident_free_heaps *heaps)
{
    for (size_t i = 0; i < heaps->n; i++)
        dp_mem_unmap(heaps->at[i].pages,
                     (heaps->at[i].end - heaps->at[i].start) / dp_page_bytes() * sizeof *heaps->at[i].pages);
    heaps->n = 0;
}

static size_t chunk_bytes(size_t n_bytes)
{
    size_t size = (n_bytes + sizeof(size_t) + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    return size < LEAST_BYTES ? LEAST_BYTES : size;
}

/* The heap that an address lies in; NULL: none. */
static const struct dp_resident_free_heap *find_heap(const struct dp_resident_free_heaps *heaps, uintptr_t at)
{
    size_t i = 0;
    while (i < heaps->n && heaps->at[i].end <= at)
        i++;
    return i < heaps->n && heaps->at[i].start <= at ? &heaps->at[i] : NULL;
}

int64_t dp_resident_free_pinned_by(const struct dp_resident_free_heaps *heaps, uintptr_t start, size_t n_bytes)
{
    uintptr_t chunk = start - HEADER_BYTES, end = chunk + chunk_bytes(n_bytes);
    const struct dp_resident_free_heap *heap = find_heap(heaps, chunk);
    if (!heap)
        return -1;
    if (!heap->pages || end > heap->end)
        return 0;
    int64_t pinned = 0;
    for (uintptr_t page = dp_page_floor(chunk); page < end; page += dp_page_bytes()) {
        const struct dp_resident_page_use *use = &heap->pages[(page - heap->start) / dp_page_bytes()];
        pinned += use->n_chunks ? use->n_free / use->n_chunks : 0;
    }
    return pinned;
}

bool dp_resident_free_is_placed(uintptr_t start)
{
    return start % dp_page_bytes() == 0;
}

/*
 * The C heap cuts a placed block out of a free chunk with a page more, and an aligned block's least rest: so one of its
 * leftovers may begin two pages before it, or end a page behind it.
 */
void dp_resident_free_mark(struct dp_resident_free_heaps *heaps, uintptr_t start, size_t n_bytes)
{
    const struct dp_resident_free_heap *heap = find_heap(heaps, start);
    if (!heap || !heap->pages)
        return;
    size_t n_pages = (heap->end - heap->start) / dp_page_bytes(), at = (start - heap->start) / dp_page_bytes();
    size_t end = at + dp_page_ceil(n_bytes) / dp_page_bytes() + 1;
    for (size_t i = at < 2 ? 0 : at - 2; i < end && i < n_pages; i++)
        heap->pages[i].is_shaped = true;
}

enum { NEAR_MOST = 256, NEAR_ENOUGH = 4 }; /* pages that are looked at on one side, and that are taken of them */

/* Adds the nearest pages with chunks in use, from `i` on in one direction. */
static void add_near(const struct dp_resident_free_heap *heap, size_t i, bool is_up, int64_t *n_free, int64_t *n_chunks)
{
    size_t n_pages = (heap->end - heap->start) / dp_page_bytes();
    for (int seen = 0, taken = 0; i < n_pages && seen < NEAR_MOST && taken < NEAR_ENOUGH; seen++, i += is_up ? 1 : -1) {
        const struct dp_resident_page_use *use = &heap->pages[i];
        if (use->is_shaped || !use->n_chunks)
            continue;
        *n_free += use->n_free;
        *n_chunks += use->n_chunks;
        taken++;
    }
}

int64_t dp_resident_free_pinned_near(const struct dp_resident_free_heaps *heaps, uintptr_t start, size_t n_bytes)
{
    const struct dp_resident_free_heap *heap = find_heap(heaps, start);
    int64_t n_free = 0, n_chunks = 0, page_bytes = (int64_t)dp_page_bytes();
    if (heap && heap->pages) {
        size_t at = (start - heap->start) / dp_page_bytes();
        add_near(heap, at, true, &n_free, &n_chunks);
        add_near(heap, at - 1, false, &n_free, &n_chunks);
    }
    if (!n_chunks)
        return dp_resident_free_pinned_by(heaps, start, n_bytes);
    /* A chunk shares the pages of its two ends with others; a small one lies in one page or in two. */
    int64_t chunk = (int64_t)chunk_bytes(n_bytes), shared = chunk < page_bytes ? page_bytes + chunk : 2 * page_bytes;
    return (int64_t)((double)n_free / (double)n_chunks * (double)shared / (double)page_bytes);
}
