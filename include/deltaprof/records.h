/* SPDX-License-Identifier: MIT */
/*
 * records.h - deltas of cumulative records that a runtime keeps itself.
 *
 * The runtime hands in all its records each time; what comes out is the gzipped pprof of what changed since the last
 * write that succeeded. Deltas are subtracted first and scaled then, as Go's profiles are. A heap record is known by
 * its stack together with its block size (bytes / objects), or by its stack alone with DELTAPROF_MIXED_SIZES. Fastest
 * when records come in the same order each time and have ids; any order is right. One object serves one source:
 * mixing these calls with deltaprof_delta_write, or the wrong kind, is -EINVAL.
 */
#pragma once

#include <deltaprof/deltaprof.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Cumulative counters of one stack since the runtime began. Every value of stack is a return address, the leaf first,
 * or what deltaprof_delta_set_frames names; with the top bit set it is no address of this process.
 *
 * id is any number that the runtime keeps for this record, for example the address of its bucket; 0: none. It promises
 * the same stack and block size until deltaprof_delta_forget_ids. The stack of a record whose id was seen before is
 * read only when its row is written, so a delta of many records costs a fraction. Records with and without ids may be
 * mixed.
 */
struct deltaprof_heap_record {
    const uintptr_t *stack;
    size_t depth;
    int64_t alloc_objects, alloc_bytes, free_objects, free_bytes;
    uint64_t id;
};

/* The same for waits; of a kind DELTAPROF_MUTEX or DELTAPROF_BLOCK. */
struct deltaprof_block_record {
    const uintptr_t *stack;
    size_t depth;
    int64_t contentions, delay_ns;
    uint64_t id; /* as above */
};

/*
 * Writes what changed since the last success; the records and stacks are only read, and only until the call returns.
 * rate_bytes: the mean bytes between samples of the source; <= 1: the values are not scaled. A record below what it was
 * last time has begun anew: it shows no alloc, and counts from there. Records of one key are summed. A stack deeper
 * than `depth` is cut there.
 *
 * fn NULL: nothing is written, and these records are the baseline from now on (deltaprof_delta_skip instead makes the
 * records of the next call the baseline; so does a fork, in the child: those show what is in use and no alloc).
 *
 * 0; fn's error; -EINVAL: the wrong kind or source, or a NULL where records or a stack should be; -EBUSY: a write is
 * not settled; -ENOMEM: more stacks than `memory` has room for. On any error the baseline stays.
 */
DELTAPROF_API int deltaprof_delta_write_heap_records(struct deltaprof_delta *delta,
                                                     const struct deltaprof_heap_record *records, size_t n_records,
                                                     int64_t rate_bytes, deltaprof_write_fn fn, void *ctx);
DELTAPROF_API int deltaprof_delta_write_block_records(struct deltaprof_delta *delta,
                                                      const struct deltaprof_block_record *records, size_t n_records,
                                                      deltaprof_write_fn fn, void *ctx);

/*
 * Ids in the calls to come have nothing to do with ids in the calls before: the runtime numbers its records anew. The
 * baseline stays; records are found again by their stacks, once. 0, or -EINVAL: delta is NULL.
 */
DELTAPROF_API int deltaprof_delta_forget_ids(struct deltaprof_delta *delta);

/* The same in two phases: deltaprof_delta_commit or _abandon settles it. */
DELTAPROF_API int deltaprof_delta_write_heap_records_uncommitted(struct deltaprof_delta *delta,
                                                                 const struct deltaprof_heap_record *records,
                                                                 size_t n_records, int64_t rate_bytes,
                                                                 deltaprof_write_fn fn, void *ctx);
DELTAPROF_API int deltaprof_delta_write_block_records_uncommitted(struct deltaprof_delta *delta,
                                                                  const struct deltaprof_block_record *records,
                                                                  size_t n_records, deltaprof_write_fn fn, void *ctx);

#ifdef __cplusplus
}
#endif
