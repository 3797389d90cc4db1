/* SPDX-License-Identifier: MIT */
/*
 * base/mem.h - allocates memory directly from the kernel, and counts all of it against the key `memory`.
 *
 * The profiler keeps no data in the host's heap: the host's allocator may be the one that is profiled, may be corrupt
 * after a crash, and may be locked for ever in a forked child. Mappings are zeroed, private, without huge pages (but
 * see dp_mem_huge) and without reservation: only touched pages use memory. A mapping is counted with its full size.
 * Context: any thread, async-signal-safe (mmap, munmap, mremap, madvise only); errno is kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>

/*
 * The size of the kernel's pages, for what the kernel sees in pages: addresses and lengths of mappings, the index of
 * /proc/PID/pagemap. x86_64 has one size; a kernel of aarch64 has 4, 16 or 64 KiB. DP_PAGE_LEAST is the smallest of any
 * kernel: two bytes between two multiples of it lie in one page of each kernel. So a walk, which asks the kernel
 * whether memory is readable, steps by that constant. DP_PAGE_MOST is the largest: a variable that is as long, and
 * aligned to it, has whole pages of each kernel.
 */
#define DP_PAGE_LEAST 4096
#if defined(__x86_64__)
#define DP_PAGE_MOST DP_PAGE_LEAST
#else
#define DP_PAGE_MOST 65536
#endif

static inline uintptr_t dp_page_bytes(void)
{
#if defined(__x86_64__)
    return DP_PAGE_LEAST;
#else
    return getauxval(AT_PAGESZ);
#endif
}

/* An address or a length, rounded down or up to whole pages. ceil is 0 beyond the last page. */
static inline uintptr_t dp_page_floor(uintptr_t at)
{
    return at & -dp_page_bytes();
}
static inline uintptr_t dp_page_ceil(uintptr_t at)
{
    return dp_page_floor(at + dp_page_bytes() - 1);
}

/* Sets the cap in bytes; existing mappings stay. Before the first call the cap is 64 MiB. */
void dp_mem_cap(size_t cap_bytes);

/* Maps n_bytes, rounded up to pages, zeroed. NULL: over the cap, or refused by the kernel. */
void *dp_mem_map(size_t n_bytes);
void *dp_mem_map_shared(size_t n_bytes);    /* shared with processes forked later */
void dp_mem_unmap(void *p, size_t n_bytes); /* takes NULL */

/*
 * Fills n_bytes with resident pages, from which the next small mappings are cut: one system call instead of a page
 * fault for each page. They are not counted before they are mapped. If there is no memory, nothing is done.
 */
void dp_mem_fill(size_t n_bytes);

/* Maps n_bytes that are hardly ever touched: not counted against `memory`. NULL: refused by the kernel. */
void *dp_mem_map_unused(size_t n_bytes);

/*
 * For memory that is mapped at start and never unmapped. reserve takes address space for n_bytes with two system calls;
 * -ENOMEM: the kernel refused it. table cuts pieces of whole pages from it, counted and zeroed as by map; a piece that
 * does not fit is mapped by itself. Context: init, one thread.
 */
int dp_mem_reserve(size_t n_bytes);
void *dp_mem_table(size_t n_bytes);

/*
 * A table that may grow: address space for most_bytes, of which n_bytes are charged now, from the end of the
 * reservation: each lies directly before the last one. Context: init, one thread.
 */
void *dp_mem_table_shared(size_t n_bytes, size_t most_bytes);
/* Charges n_bytes more of a growing table, if three tenths of the cap are still free afterwards: reports need those.
 * False: there is not as much to spare. uncharge takes it back. */
bool dp_mem_charge_spare(size_t n_bytes);
void dp_mem_uncharge(size_t n_bytes);

/*
 * Lets whole 2 MiB pieces of a table use huge pages, where the system has them: for a large table with random accesses,
 * which would miss the TLB. The price: one touched entry makes 2 MiB resident. Pages touched before do not change.
 */
void dp_mem_huge(void *p, size_t n_bytes);

/* Grows or shrinks a mapping, which may move. NULL: failed, p is unchanged. p NULL: maps. */
void *dp_mem_remap(void *p, size_t old_bytes, size_t new_bytes);

/*
 * keep_back: keeps n_bytes of the cap for threads that do not yield. Threads that answer clients yield, so that clients
 * cannot use up the memory that a tick needs. yield: sets that for the calling thread; returns the old value.
 */
void dp_mem_keep_back(size_t n_bytes);
bool dp_mem_yield(bool yields);

size_t dp_mem_used(void);
size_t dp_mem_left(void); /* that the calling thread may still map */

/*
 * For a large static array that few processes use. It is kept apart from the small variables, so that these lie in few
 * pages: a forked child that writes one of them copies its page.
 */
#define DP_LARGE __attribute__((section(".bss.zz_large")))

/*
 * Mapping i of those that exist, for i from 0 to DP_MEM_MAPPINGS - 1, so that a report can count what is resident;
 * false: there is none. Beyond that number mappings are not listed.
 */
#define DP_MEM_MAPPINGS 256u
bool dp_mem_mapping(unsigned i, uintptr_t *start, size_t *n_bytes);
/* Their list, for another process that reads it: DP_MEM_MAPPINGS pairs of start and length. */
const void *dp_mem_mappings(void);

/*
 * A growable array in a mapping: struct { T *at; size_t n, cap; }. Zero is empty.
 *     DP_VEC(struct row) rows = {0};
 *     struct row *r = dp_vec_push(&rows);    // zeroed, or NULL
 */
#define DP_VEC(type)   \
    struct {           \
        type *at;      \
        size_t n, cap; \
    }
void *dp_mem_vec_room(void **at, size_t *cap, size_t n, size_t want, size_t elem_bytes);
static inline void *dp_mem_vec_place(void *at, size_t cap, size_t n, size_t n_more, size_t elem_bytes)
{
    return at && cap - n >= n_more ? (char *)at + n * elem_bytes : NULL;
}
/*
 * Makes room for n_more elements; returns the first free element, or NULL if there is no memory: the array is
 * unchanged.
 */
#define dp_vec_room(v, n_more)                                                                             \
    ((__typeof__((v)->at))(dp_mem_vec_place((v)->at, (v)->cap, (v)->n, (n_more), sizeof *(v)->at)          \
                               ?: dp_mem_vec_room((void **)&(v)->at, &(v)->cap, (v)->n, (v)->n + (n_more), \
                                                  sizeof *(v)->at)))
#define dp_vec_push(v)  (dp_vec_room((v), 1) ? &(v)->at[(v)->n++] : NULL)
#define dp_vec_clear(v) ((void)((v)->n = 0))
#define dp_vec_fini(v) \
    (dp_mem_unmap((v)->at, (v)->cap * sizeof *(v)->at), (v)->at = NULL, (v)->n = 0, (v)->cap = 0, (void)0)
