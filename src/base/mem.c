/* SPDX-License-Identifier: MIT */
/*
 * base/mem.c - maps memory and counts it: one counter, one cap. A mapping is added to the counter first and subtracted
 * again if it fails. So near the cap two threads may both be refused, but never both succeed. The counter is relaxed:
 * it orders nothing.
 *
 * The mappings are listed, for reports. The list is bounded and needs no lock: a slot belongs to the thread that filled
 * it, until that mapping ends.
 *
 * A report makes fifty small mappings, and a system call for each would be a large part of a small profile's cost. So
 * small mappings are cut from a batch of pages. `fresh` is one word, {address of the next page, number of pages left}:
 * a thread takes pages by CAS, so no page is given twice. The word describes the batch completely, so it does no harm
 * if it had the same value before. The rest of a batch is not counted until it is given out.
 *
 * [FRESH] The thread that mapped a batch publishes it, and the thread that takes pages from it acquires. No thread has
 * written to these pages, but the mapping itself is the first write: the kernel's.
 */
#include "base/mem.h"

#include "base/atomic.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_BYTES ((uintptr_t)2 << 20)

enum { BATCH_PAGES = 16, FRESH_MOST = 4 /* pages of a small mapping */ };

static _Atomic size_t cap = 64u << 20;
static _Atomic size_t used;
static _Atomic size_t kept_back;
static __thread bool yielding;
static struct {
    char *at;
    size_t left;
} reserved;

/* The mappings, in any order. The start is written last and erased first; a reader may see a length that is old. */
static struct {
    _Atomic uintptr_t start;
    _Atomic size_t n_bytes;
} mappings[DP_MEM_MAPPINGS] DP_LARGE;
/* The slot that was filled last, where searches begin: the rest of a batch stands there. Any value is right. */
static _Atomic unsigned newest;

static void list(const void *p, size_t n_bytes)
{
    for (unsigned n = 0, i = dp_load_relaxed(&newest); n < DP_MEM_MAPPINGS; n++, i++) {
        uintptr_t none = 0;
        i %= DP_MEM_MAPPINGS;
        if (dp_load_relaxed(&mappings[i].start) || !dp_cas_relaxed(&mappings[i].start, &none, (uintptr_t)p))
            continue;
        dp_store_relaxed(&mappings[i].n_bytes, n_bytes);
        dp_store_relaxed(&newest, i);
        return;
    }
}

static void unlist(const void *p)
{
    for (unsigned n = 0, i = dp_load_relaxed(&newest); n < DP_MEM_MAPPINGS; n++, i--) {
        i %= DP_MEM_MAPPINGS;
        if (dp_load_relaxed(&mappings[i].start) == (uintptr_t)p) {
            dp_store_relaxed(&mappings[i].n_bytes, 0);
            dp_store_relaxed(&mappings[i].start, 0);
            return;
        }
    }
}

bool dp_mem_mapping(unsigned i, uintptr_t *start, size_t *n_bytes)
{
    *start = dp_load_relaxed(&mappings[i].start);
    *n_bytes = dp_load_relaxed(&mappings[i].n_bytes);
    return *start && *n_bytes;
}

const void *dp_mem_mappings(void)
{
    return mappings;
}

static int charge(size_t n_bytes)
{
    size_t before = dp_add_relaxed(&used, n_bytes), left_alone = yielding ? dp_load_relaxed(&kept_back) : 0;
    if (before + n_bytes + left_alone <= dp_load_relaxed(&cap) && before + n_bytes >= before)
        return 0;
    dp_sub_relaxed(&used, n_bytes);
    return -ENOMEM;
}

void dp_mem_cap(size_t cap_bytes)
{
    dp_store_relaxed(&cap, cap_bytes);
}

void dp_mem_keep_back(size_t n_bytes)
{
    dp_store_relaxed(&kept_back, n_bytes);
}

bool dp_mem_yield(bool yields)
{
    bool before = yielding;
    yielding = yields;
    return before;
}

size_t dp_mem_used(void)
{
    return dp_load_relaxed(&used);
}

size_t dp_mem_left(void)
{
    size_t most = dp_load_relaxed(&cap), now = dp_load_relaxed(&used);
    now += yielding ? dp_load_relaxed(&kept_back) : 0;
    return now < most ? most - now : 0;
}

static void *map(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (size >= HUGE_BYTES)
        madvise(p, size, MADV_NOHUGEPAGE); /* sparse tables: one touched entry must not cost 2 MiB */
    list(p, size);
    return p;
}

static _Atomic uintptr_t fresh;

/*
 * Maps a batch of n_all pages. The caller takes n of them; the others become the new `fresh`, which was `old`. flags:
 * MAP_POPULATE, or 0. NULL: refused.
 */
static char *map_batch(size_t n_all, size_t n, uintptr_t old, int flags)
{
    const uintptr_t page = dp_page_bytes();
    char *p =
        mmap(NULL, n_all * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *rest = p + n * page;
    size_t n_rest = n_all - n;
    if (dp_cas_publish(&fresh, &old, (uintptr_t)rest | n_rest)) { /* [FRESH] */
        list(rest, n_rest * page);
        rest = (char *)(old & -page);
        n_rest = old & (page - 1);
    }
    if (n_rest) {
        unlist(rest);
        munmap(rest, n_rest * page);
    }
    return p;
}

static void *map_small(size_t size)
{
    const uintptr_t page = dp_page_bytes();
    size_t n = size / page;
    uintptr_t word = dp_load_relaxed(&fresh);
    while ((word & (page - 1)) >= n)
        if (dp_cas_acquire(&fresh, &word, word + size - n)) { /* [FRESH] */
            char *p = (char *)(word & -page);
            size_t n_rest = (word & (page - 1)) - n;
            unlist(p); /* it was listed as the beginning of the rest of a batch */
            list(p, size);
            if (n_rest)
                list(p + size, n_rest * page);
            return p;
        }
    char *p = map_batch(BATCH_PAGES, n, word, 0);
    if (p)
        list(p, size);
    return p;
}

void dp_mem_fill(size_t n_bytes)
{
    int saved = errno;
    size_t n = dp_page_ceil(n_bytes) / dp_page_bytes();
    if (n_bytes <= dp_mem_left() && n < dp_page_bytes())
        map_batch(n, 0, dp_load_relaxed(&fresh), MAP_POPULATE);
    errno = saved;
}

void *dp_mem_map(size_t n_bytes)
{
    int saved = errno;
    size_t size = dp_page_ceil(n_bytes);
    if (size < n_bytes || charge(size))
        return NULL;
    void *p = size && size <= FRESH_MOST * dp_page_bytes() ? map_small(size) : map(size);
    if (!p)
        dp_sub_relaxed(&used, size);
    errno = saved;
    return p;
}

void *dp_mem_map_unused(size_t n_bytes)
{
    int saved = errno;
    void *p = map(dp_page_ceil(n_bytes));
    errno = saved;
    return p;
}

void *dp_mem_map_shared(size_t n_bytes)
{
    int saved = errno;
    size_t size = dp_page_ceil(n_bytes);
    if (size < n_bytes || charge(size))
        return NULL;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        dp_sub_relaxed(&used, size);
        p = NULL;
    }
    errno = saved;
    return p;
}

int dp_mem_reserve(size_t n_bytes)
{
    int saved = errno;
    reserved.left = dp_page_ceil(n_bytes);
    reserved.at = map(reserved.left);
    if (!reserved.at)
        reserved.left = 0;
    errno = saved;
    return reserved.at ? 0 : -ENOMEM;
}

/* Cuts a piece from the begin of the reservation, or from its end; one that does not fit is mapped by itself. */
static void *cut_table(size_t n_bytes, size_t most_bytes, bool at_end)
{
    size_t size = dp_page_ceil(most_bytes);
    if (size < most_bytes || charge(dp_page_ceil(n_bytes)))
        return NULL;
    if (size > reserved.left) {
        void *p = dp_mem_map_unused(most_bytes);
        if (!p)
            dp_mem_uncharge(n_bytes);
        return p;
    }
    reserved.left -= size;
    if (at_end)
        return reserved.at + reserved.left;
    reserved.at += size;
    return reserved.at - size;
}

void *dp_mem_table(size_t n_bytes)
{
    return cut_table(n_bytes, n_bytes, false);
}

void *dp_mem_table_shared(size_t n_bytes, size_t most_bytes)
{
    return cut_table(n_bytes, most_bytes, true);
}

bool dp_mem_charge_spare(size_t n_bytes)
{
    size_t size = dp_page_ceil(n_bytes), most = dp_load_relaxed(&cap) / 10 * 7, now = dp_load_relaxed(&used);
    do {
        if (now > most || size > most - now)
            return false;
    } while (!dp_cas_relaxed(&used, &now, now + size));
    return true;
}

void dp_mem_uncharge(size_t n_bytes)
{
    dp_sub_relaxed(&used, dp_page_ceil(n_bytes));
}

void dp_mem_huge(void *p, size_t n_bytes)
{
    uintptr_t mask = HUGE_BYTES - 1, from = ((uintptr_t)p + mask) & ~mask, to = ((uintptr_t)p + n_bytes) & ~mask;
    int saved = errno;
    if (from < to)
        madvise((void *)from, to - from, MADV_HUGEPAGE);
    errno = saved;
}

void dp_mem_unmap(void *p, size_t n_bytes)
{
    if (!p)
        return;
    int saved = errno;
    unlist(p);
    munmap(p, dp_page_ceil(n_bytes));
    dp_sub_relaxed(&used, dp_page_ceil(n_bytes));
    errno = saved;
}

/* ThreadSanitizer does not know mremap: it would confuse a moved page with the page that was there before. */
#if defined(__SANITIZE_THREAD__)
static void *move(void *p, size_t old_size, size_t new_size)
{
    void *moved = mmap(NULL, new_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (moved != MAP_FAILED) {
        memcpy(moved, p, old_size < new_size ? old_size : new_size);
        munmap(p, old_size);
    }
    return moved;
}
#else
static void *move(void *p, size_t old_size, size_t new_size)
{
    return mremap(p, old_size, new_size, MREMAP_MAYMOVE);
}
#endif

void *dp_mem_remap(void *p, size_t old_bytes, size_t new_bytes)
{
    if (!p)
        return dp_mem_map(new_bytes);
    int saved = errno;
    size_t old_size = dp_page_ceil(old_bytes), new_size = dp_page_ceil(new_bytes);
    if (new_size < new_bytes || (new_size > old_size && charge(new_size - old_size)))
        return NULL;
    unlist(p);
    void *moved = move(p, old_size, new_size);
    list(moved == MAP_FAILED ? p : moved, moved == MAP_FAILED ? old_size : new_size);
    if (moved == MAP_FAILED) {
        if (new_size > old_size)
            dp_sub_relaxed(&used, new_size - old_size);
        moved = NULL;
    } else if (new_size < old_size) {
        dp_sub_relaxed(&used, old_size - new_size);
    }
    errno = saved;
    return moved;
}

void *dp_mem_vec_room(void **at, size_t *cap_elems, size_t n, size_t want, size_t elem_bytes)
{
    if (want > *cap_elems) {
        size_t grown = *cap_elems + *cap_elems / 2;
        if (grown < want)
            grown = want;
        size_t bytes;
        if (__builtin_mul_overflow(grown, elem_bytes, &bytes))
            return NULL;
        bytes = dp_page_ceil(bytes);
        void *moved = dp_mem_remap(*at, *cap_elems * elem_bytes, bytes);
        if (!moved) { /* perhaps there is memory for what is needed now */
            bytes = dp_page_ceil(want * elem_bytes);
            moved = dp_mem_remap(*at, *cap_elems * elem_bytes, bytes);
        }
        if (!moved)
            return NULL;
        *at = moved;
        *cap_elems = bytes / elem_bytes;
    }
    return (char *)*at + n * elem_bytes;
}
