/* SPDX-License-Identifier: MIT */
/*
 * base/mem.h - memory straight from the kernel, all of it counted against `memory`.
 *
 * Nothing of the profiler's own lives in the host's heap: its allocator may be the one being profiled, may be broken
 * after a crash, and may be locked for ever in a forked child. Mappings are zeroed, private, without huge pages
 * (but see dp_mem_huge) and without reservation: only touched pages cost. A mapping is charged whole.
 * Context: any thread, async-signal-safe (mmap, munmap, mremap, madvise only); errno is kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets the cap in bytes; what is mapped already stays. Before the first call there is a cap of 64 MiB. */
void dp_mem_cap(size_t cap_bytes);

/* n_bytes rounded up to pages, zeroed; NULL: over the cap or none from the kernel. */
void *dp_mem_map(size_t n_bytes);
void *dp_mem_map_shared(size_t n_bytes);    /* with the processes that are forked from this one */
void dp_mem_unmap(void *p, size_t n_bytes); /* takes NULL */

/* n_bytes of address space that is hardly ever touched: not counted against `memory`. NULL: none from the kernel. */
void *dp_mem_map_unused(size_t n_bytes);

/*
 * For what is mapped at start and never given back: reserve takes address space for n_bytes of it with two system
 * calls, table carves pieces of whole pages, charged and zeroed like a map, and maps what does not fit. Context: init,
 * one thread.
 */
void dp_mem_reserve(size_t n_bytes);
void *dp_mem_table(size_t n_bytes);

/*
 * Lets whole 2 MiB pieces of a table lie on huge pages, where the system has them: for one that is used all over, at
 * random, and large, so that page tables are in no cache either. The price: one touched entry makes 2 MiB resident.
 * What was touched before stays as it is.
 */
void dp_mem_huge(void *p, size_t n_bytes);

/* Grows or shrinks a mapping, which may move; NULL: p stays as it was. p NULL maps. */
void *dp_mem_remap(void *p, size_t old_bytes, size_t new_bytes);

/*
 * n_bytes of the cap are left to threads that do not yield. Threads that answer clients yield, so that clients cannot
 * take the memory that a tick needs. yield: for the calling thread, until it is called again; returns what was before.
 */
void dp_mem_keep_back(size_t n_bytes);
bool dp_mem_yield(bool yields);

size_t dp_mem_used(void);

/*
 * A growable array in such a mapping: struct { T *at; size_t n, cap; }. Zero is an empty one.
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
/* Makes room for n_more elements; NULL when there is none, the array unchanged. Returns the first free element. */
#define dp_vec_room(v, n_more)                                                                             \
    ((__typeof__((v)->at))(dp_mem_vec_place((v)->at, (v)->cap, (v)->n, (n_more), sizeof *(v)->at)          \
                               ?: dp_mem_vec_room((void **)&(v)->at, &(v)->cap, (v)->n, (v)->n + (n_more), \
                                                  sizeof *(v)->at)))
#define dp_vec_push(v)  (dp_vec_room((v), 1) ? &(v)->at[(v)->n++] : NULL)
#define dp_vec_clear(v) ((void)((v)->n = 0))
#define dp_vec_fini(v) \
    (dp_mem_unmap((v)->at, (v)->cap * sizeof *(v)->at), (v)->at = NULL, (v)->n = 0, (v)->cap = 0, (void)0)
