/* SPDX-License-Identifier: MIT */
/* host/resident/pages.c - counts pages by /proc/self/pagemap, or by mincore. */
#include "host/resident/pages.h"

#include "base/mem.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_OR_SHARED (UINT64_C(1) << 61)
#define SOLE           (UINT64_C(1) << 56) /* mapped once */

/* mincore does not tell pages of files from others. A range with a hole has none. */
static size_t ask_mincore(uint64_t *words, uintptr_t start, size_t n_pages)
{
    unsigned char is_in_core[DP_PAGES_PIECE];
    if (mincore((void *)start, n_pages * dp_page_bytes(), is_in_core))
        return 0;
    for (size_t i = 0; i < n_pages; i++)
        words[i] = is_in_core[i] & 1 ? DP_PAGES_PRESENT : 0;
    return n_pages;
}

size_t dp_resident_pages_words(const struct dp_resident_pages *pages, uint64_t *words, uintptr_t start, size_t n_pages)
{
    if (pages->pagemap < 0)
        return ask_mincore(words, start, n_pages);
    ssize_t got =
        pread(pages->pagemap, words, n_pages * sizeof *words, (off_t)(start / dp_page_bytes() * sizeof *words));
    return got > 0 ? (size_t)got / sizeof *words : 0;
}

static void add(const struct dp_resident_pages *pages, uintptr_t start, size_t n_pages,
                struct dp_resident_pages_count *count)
{
    uint64_t words[DP_PAGES_PIECE];
    for (size_t at = 0; at < n_pages; at += DP_PAGES_PIECE) {
        size_t wanted = n_pages - at < DP_PAGES_PIECE ? n_pages - at : DP_PAGES_PIECE;
        size_t got = dp_resident_pages_words(pages, words, start + at * dp_page_bytes(), wanted);
        for (size_t i = 0; i < got; i++) {
            bool counts = (words[i] & DP_PAGES_PRESENT) && !(words[i] & FILE_OR_SHARED);
            count->n_sole += counts && (words[i] & SOLE);
            count->n_others += counts && !(words[i] & SOLE);
        }
    }
}

static size_t counted(const struct dp_resident_pages *pages, const struct dp_resident_pages_count *count)
{
    return count->n_sole + (size_t)(pages->others_share * (double)count->n_others);
}

size_t dp_resident_pages_exact(const struct dp_resident_pages *pages, uintptr_t start, size_t n_pages)
{
    struct dp_resident_pages_count count = {0};
    add(pages, start, n_pages, &count);
    return counted(pages, &count);
}

struct dp_resident_pages_count dp_resident_pages_look(const struct dp_resident_pages *pages, uintptr_t start,
                                                      uintptr_t end)
{
    struct dp_resident_pages_count count = {0};
    size_t n_pages = (end - start) / dp_page_bytes(), step = pages->step;
    if (step == 1 || n_pages < step * DP_PAGES_PIECE) {
        add(pages, start, n_pages, &count);
        return count;
    }
    for (size_t at = 0; at < n_pages; at += step * DP_PAGES_PIECE)
        add(pages, start + at * dp_page_bytes(), n_pages - at < DP_PAGES_PIECE ? n_pages - at : DP_PAGES_PIECE, &count);
    return (struct dp_resident_pages_count){count.n_sole * step, count.n_others * step};
}

int64_t dp_resident_pages_bytes(const struct dp_resident_pages *pages, const struct dp_resident_pages_count *count)
{
    return (int64_t)(counted(pages, count) * dp_page_bytes());
}

int64_t dp_resident_pages_estimate(const struct dp_resident_pages *pages, uintptr_t start, uintptr_t end)
{
    struct dp_resident_pages_count count = dp_resident_pages_look(pages, start, end);
    return dp_resident_pages_bytes(pages, &count);
}
