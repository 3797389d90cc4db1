/* SPDX-License-Identifier: MIT */
/*
 * host/shared/shared.h - the arrays of the profiler that another process may read: records, counters, stacks, frames,
 * objects and names. They lie in one range of addresses. With the key `tables` that range is a file in a tmpfs
 * (table_file.c); else it is private memory. What the arrays have is only added to.
 *
 * The file is made when the first stack is walked, so a process that samples nothing has none. A forked child still has
 * its parent's file mapped, and must not write to it: it makes its own one at its first stack, in the same way. Until
 * then, and in a child that no fork handler saw (a raw clone), the gate is closed: no stack is walked, and no counter
 * changes.
 */
#pragma once

#include "base/atomic.h"
#include "base/mem.h"
#include "tmpfs/table_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dp_shared_array {
    char *at;
    size_t each_bytes, stride_bytes; /* of an entry; between parts */
    uint32_t most, n_parts;          /* entries of a part; below it all are */
    _Atomic uint32_t backed;         /* that many entries of each part may be written; relaxed: memory is zero */
    const _Atomic uint32_t *used;    /* entries in use, for a copy; NULL: all that are backed */
    bool is_fresh;                   /* a forked child begins with zeros */
};

/*
 * The words of the gate and of the record store, in a page that the kernel clears in each child (MADV_WIPEONFORK) where
 * a file is wanted. Fork handlers set them again.
 */
extern struct dp_shared_own {
    _Alignas(DP_PAGE_LEAST) _Atomic uint32_t is_open; /* [ZERO], as the next two: record.c */
    _Atomic uint32_t ready;
    _Atomic uint32_t zero;
    _Atomic uint32_t epoch;
    _Atomic uint32_t plain; /* frees have nothing to count beside their record */
    char rest[DP_PAGE_LEAST - 5 * sizeof(uint32_t)];
} dp_shared_own DP_INTERNAL;

/*
 * Opens the gate; returns false if the event is to be dropped. waits: while another thread makes the file. NULL, as
 * before the start: the gate counts as open.
 */
extern bool (*_Atomic dp_shared_opens)(bool waits) DP_INTERNAL;
bool dp_shared_open_slow(bool waits);
static inline bool dp_shared_may_write(void)
{
    if (__builtin_expect(dp_load_acquire(&dp_shared_own.is_open), 1))
        return true;
    return dp_shared_open_slow(true);
}

/* The same for a handler, which may have interrupted the thread that makes the file. */
static inline bool dp_shared_may_write_now(void)
{
    return __builtin_expect(dp_load_acquire(&dp_shared_own.is_open), 1) || dp_shared_open_slow(false);
}

/*
 * Cuts an array from dp_mem's reservation; charges n entries of `most`. each part has that many. -ENOMEM. Context:
 * init, one thread.
 */
int dp_shared_array_init(enum dp_tables_array id, size_t each_bytes, size_t n, size_t most, unsigned n_parts);
struct dp_shared_array *dp_shared_array(enum dp_tables_array id);
static inline void *dp_shared_at(enum dp_tables_array id)
{
    return dp_shared_array(id)->at;
}

/*
 * Whether the first n entries may be written: gives them memory if they have none. False: there is none left, or a
 * filter may forbid the system call. Context: hook, the gate open.
 */
bool dp_shared_reach_slow(struct dp_shared_array *array, uint32_t n);
static inline bool dp_shared_reach(struct dp_shared_array *array, uint32_t n)
{
    return __builtin_expect(n <= dp_load_relaxed(&array->backed), 1) || dp_shared_reach_slow(array, n);
}
