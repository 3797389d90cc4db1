/* SPDX-License-Identifier: MIT */
/*
 * host/shared/shared.h - the arrays of the profiler that another process may read: records, counters, stacks, frames,
 * objects and names. They lie in one range of addresses. With the key `tables` that range is a file in a tmpfs
 * (table_file.c); else it is private memory. Entries are added and never removed.
 *
 * The file is made when the first stack is walked, so a process that samples nothing has none. A forked child has its
 * parent's file mapped and must not write to it; it makes its own file when it walks its first stack. Until then its
 * gate is closed: no stack is walked, and no counter changes. The gate stays closed in a child that no fork handler saw
 * (a raw clone).
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
    size_t each_bytes;            /* of an entry */
    size_t stride_bytes;          /* from one part to the next */
    uint32_t most, n_parts;       /* entries of a part; parts, which have the same number of entries */
    _Atomic uint32_t committed;   /* entries of each part that may be written; relaxed: their memory is zero */
    const _Atomic uint32_t *used; /* entries that a copy needs; NULL: all that are committed */
    bool is_fresh;                /* a forked child begins with zeros instead of a copy */
};

/*
 * The state of the gate and of the record store. If a file is wanted, the kernel clears it in each forked child
 * (MADV_WIPEONFORK), which closes the gate; the fork handler sets it again.
 */
extern struct dp_shared_own {
    _Alignas(DP_PAGE_MOST) _Atomic uint32_t is_open; /* the gate. [ZERO], see record.c */
    _Atomic uint32_t ready;                          /* the tables may be used. [READY] */
    _Atomic uint32_t zero;                           /* a forked child's zero: DP_ZERO_*. [ZERO] */
    _Atomic uint32_t epoch;                          /* number of forks */
    _Atomic uint32_t plain;                          /* a free changes only its record */
    char rest[DP_PAGE_MOST - 5 * sizeof(uint32_t)];
} dp_shared_own DP_INTERNAL;

/*
 * may_write: whether the gate is open, or could be opened. False: the event is to be dropped. The record store sets the
 * opener, which makes the file; waits: it may wait while another thread makes it. Without an opener, before the start,
 * the gate counts as open.
 */
extern bool (*_Atomic dp_shared_gate_opener)(bool waits) DP_INTERNAL;
bool dp_shared_open_gate(bool waits);
static inline bool dp_shared_may_write(void)
{
    if (__builtin_expect(dp_load_acquire(&dp_shared_own.is_open), 1))
        return true;
    return dp_shared_open_gate(true);
}

/* The same in a signal handler, which must not wait: it may have interrupted the thread that makes the file. */
static inline bool dp_shared_may_write_now(void)
{
    return __builtin_expect(dp_load_acquire(&dp_shared_own.is_open), 1) || dp_shared_open_gate(false);
}

/*
 * Cuts an array of n_parts parts from dp_mem's reservation, with room for `most` entries in each part. An array of one
 * part is charged for n entries, others for all. 0 or -ENOMEM. Context: init, one thread.
 */
int dp_shared_array_init(enum dp_tables_array id, size_t each_bytes, size_t n, size_t most, unsigned n_parts);
struct dp_shared_array *dp_shared_array(enum dp_tables_array id);
static inline void *dp_shared_at(enum dp_tables_array id)
{
    return dp_shared_array(id)->at;
}

/*
 * Commits memory for the first n entries of each part, which then may be written. False: there is no memory or no room,
 * or a seccomp filter may forbid the system call. Context: hook, with the gate open.
 */
bool dp_shared_commit_slow(struct dp_shared_array *array, uint32_t n);
static inline bool dp_shared_commit(struct dp_shared_array *array, uint32_t n)
{
    return __builtin_expect(n <= dp_load_relaxed(&array->committed), 1) || dp_shared_commit_slow(array, n);
}
