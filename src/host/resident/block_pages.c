/* SPDX-License-Identifier: MIT */
/* host/resident/block_pages.c - looks at the pages and at the bytes of blocks, through windows that move with them. */
#include "host/resident/block_pages.h"

#include "base/mem.h"
#include "base/process.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define FILE_OR_SHARED (UINT64_C(1) << 61)
#define SOLE           (UINT64_C(1) << 56)
_Static_assert(DP_BLOCK_WINDOW / DP_PAGE_LEAST <= 32, "a bit for each page");

int dp_resident_block_open(struct dp_resident_block_reader *r)
{
    r->pages = (struct dp_resident_pages){.pagemap = dp_process_open("pagemap"), .step = 1, .others_share = 1};
    r->mem = r->pages.pagemap < 0 ? -1 : dp_process_open("mem");
    r->left_bytes = DP_BLOCK_READ_MOST;
    r->unread_bytes = 0;
    r->window_start = 0;
    r->has_read = r->is_used = 0;
    r->n_ahead = DP_BLOCK_WINDOW / dp_page_bytes();
    return r->pages.pagemap < 0 ? -errno : 0;
}

void dp_resident_block_close(struct dp_resident_block_reader *r)
{
    if (r->mem >= 0)
        close(r->mem);
    if (r->pages.pagemap >= 0)
        close(r->pages.pagemap);
}

uint64_t dp_resident_block_word(struct dp_resident_block_reader *r, uintptr_t page)
{
    const size_t piece_bytes = DP_PAGES_PIECE * dp_page_bytes();
    struct dp_resident_block_piece *piece = &r->pieces[page / piece_bytes % DP_BLOCK_PIECES];
    if (!piece->n_words || page - piece->start >= piece->n_words * dp_page_bytes()) {
        piece->start = page - page % piece_bytes;
        piece->n_words = dp_resident_pages_words(&r->pages, piece->words, piece->start, DP_PAGES_PIECE);
        if (page - piece->start >= piece->n_words * dp_page_bytes())
            return 0;
    }
    return piece->words[(page - piece->start) / dp_page_bytes()];
}

/* Reads ahead while pages that were read so are asked for: what was read in vain counts, too. */
static void move_window(struct dp_resident_block_reader *r, uintptr_t page)
{
    int n_read = __builtin_popcount(r->has_read), n_used = __builtin_popcount(r->is_used);
    size_t most = DP_BLOCK_WINDOW / dp_page_bytes();
    if (2 * (size_t)n_used >= most)
        r->n_ahead = most;
    else if (2 * n_used < n_read)
        r->n_ahead = 1;
    r->window_start = page - page % DP_BLOCK_WINDOW;
    r->has_read = r->is_used = 0;
}

/* The bytes of a page that is present; NULL: they cannot be read, or too much was read already. */
static const unsigned char *read_page(struct dp_resident_block_reader *r, uintptr_t page)
{
    if (page - r->window_start >= DP_BLOCK_WINDOW || !r->window_start)
        move_window(r, page);
    size_t first = (page - r->window_start) / dp_page_bytes(), n = 0, most = DP_BLOCK_WINDOW / dp_page_bytes();
    unsigned char *at = r->window + first * dp_page_bytes();
    r->is_used |= 1u << first;
    if (r->has_read >> first & 1)
        return at;
    /* The pages that follow are probably wanted next. */
    while (n < r->n_ahead && first + n < most &&
           dp_resident_block_word(r, page + n * dp_page_bytes()) & DP_PAGES_PRESENT)
        n++;
    if (!n || r->mem < 0 || r->left_bytes < (int64_t)(n * dp_page_bytes()) ||
        pread(r->mem, at, n * dp_page_bytes(), (off_t)page) != (ssize_t)(n * dp_page_bytes()))
        return NULL;
    r->left_bytes -= (int64_t)(n * dp_page_bytes());
    for (size_t i = 0; i < n; i++)
        r->has_read |= 1u << (first + i);
    return at;
}

static bool are_zero(const unsigned char *bytes, size_t n)
{
    static const unsigned char zeros[DP_BLOCK_LINE_BYTES];
    return !memcmp(bytes, zeros, n);
}

/* The zeros in bytes[from, to) of a page, by lines. */
static int64_t count_zeros(const unsigned char *bytes, size_t from, size_t to)
{
    int64_t n_zeros = 0;
    for (size_t at = from, end; at < to; at = end) {
        end = (at / DP_BLOCK_LINE_BYTES + 1) * DP_BLOCK_LINE_BYTES;
        end = end < to ? end : to;
        n_zeros += are_zero(bytes + at, end - at) ? (int64_t)(end - at) : 0;
    }
    return n_zeros;
}

static void look_at_page(struct dp_resident_block_reader *r, uintptr_t page, size_t from, size_t to,
                         struct dp_resident_block *block)
{
    uint64_t word = dp_resident_block_word(r, page);
    int64_t n_bytes = (int64_t)(to - from);
    if (word & DP_PAGES_SWAPPED)
        block->swapped_bytes += n_bytes;
    if (!(word & DP_PAGES_PRESENT))
        return;
    const unsigned char *bytes = read_page(r, page);
    bool may_be_kernels = bytes && !(word & (SOLE | FILE_OR_SHARED));
    if (may_be_kernels && count_zeros(bytes, 0, dp_page_bytes()) == (int64_t)dp_page_bytes())
        return;
    block->resident_bytes += n_bytes;
    block->idle_bytes += word & DP_PAGES_WRITTEN ? 0 : n_bytes;
    block->zero_bytes += bytes ? count_zeros(bytes, from, to) : 0;
    r->unread_bytes += bytes ? 0 : n_bytes;
}

void dp_resident_block_look(struct dp_resident_block_reader *r, uintptr_t start, size_t n_bytes,
                            struct dp_resident_block *block)
{
    uintptr_t end = start + n_bytes;
    for (uintptr_t page = dp_page_floor(start), next; page < end; page = next) {
        next = page + dp_page_bytes();
        look_at_page(r, page, start > page ? start - page : 0, (end < next ? end : next) - page, block);
    }
}
