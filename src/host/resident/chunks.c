/* SPDX-License-Identifier: MIT */
/* host/resident/chunks.c - recognizes blocks of glibc's malloc by their headers. Only pages that are resident are read.
 */
#include "host/resident/chunks.h"

#include "base/mem.h"

#include <unistd.h>

enum { IS_MMAPPED = 2, FLAGS = 7 };

static size_t length_at(int mem, uintptr_t start, uintptr_t end)
{
    size_t header[2];
    if (pread(mem, header, sizeof header, (off_t)start) != sizeof header)
        return 0;
    size_t n_bytes = header[1] & ~(size_t)FLAGS;
    bool is_chunk = header[0] == 0 && (header[1] & FLAGS) == IS_MMAPPED && n_bytes % dp_page_bytes() == 0 &&
                    n_bytes >= DP_CHUNKS_LEAST && n_bytes <= end - start;
    return is_chunk ? n_bytes : 0;
}

uintptr_t dp_resident_chunks_next(int mem, const struct dp_resident_pages *pages, const struct dp_vma *vma,
                                  uintptr_t from, size_t *n_bytes, struct dp_resident_chunks_limits *limits)
{
    uint64_t words[DP_PAGES_PIECE];
    for (uintptr_t at = from; at + DP_CHUNKS_LEAST <= vma->end;) {
        size_t n_left = (vma->end - at) / dp_page_bytes(), wanted = n_left < DP_PAGES_PIECE ? n_left : DP_PAGES_PIECE;
        size_t got = wanted <= limits->pages ? dp_resident_pages_words(pages, words, at, wanted) : 0;
        if (!got)
            return 0;
        limits->pages -= got;
        for (size_t i = 0; i < got; i++, at += dp_page_bytes()) {
            if (!(words[i] & DP_PAGES_PRESENT))
                continue;
            if (!limits->misses)
                return 0;
            if ((*n_bytes = length_at(mem, at, vma->end)))
                return at;
            limits->misses--;
        }
    }
    return 0;
}
