/* SPDX-License-Identifier: MIT */
/*
 * records.h - writes delta profiles of cumulative records that a runtime keeps itself.
 *
 * The runtime passes all its records in each call. The result is a gzipped pprof of the changes since the last
 * successful write. Values are first subtracted, then scaled, as in Go's profiles. A heap record is known by its stack
 * together with its block size (bytes / objects), or by its stack alone with DELTAPROF_MIXED_SIZES. It is fastest if
 * records have ids and come in the same order each time, but any order is correct. One object serves one source: mixing
 * these calls with deltaprof_delta_write, or using the wrong kind, gives -EINVAL.
 */
#pragma once

#include <deltaprof/deltaprof.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Cumulative counters of one stack since the runtime began. Each value of stack, the leaf first, is a return address,
 * or a value that the function of deltaprof_delta_set_frames names. With the top bit set it is not an address of this
 * process.
 *
 * id is any number that the runtime keeps for this record, for example the address of its bucket; 0: none. It promises
 * the same stack and block size until deltaprof_delta_reset_ids. The stack of a record whose id was seen before is
 * read only when its row is written, so a delta of many records costs a fraction. Records with and without ids may be
 * mixed.
 */
struct deltaprof_heap_record {
    const uintptr_t *stack;
    size_t depth;
    int64_t alloc_objects, alloc_bytes, free_objects, free_bytes;
    uint64_t id;
};

/* The same for waits of the kind DELTAPROF_MUTEX or DELTAPROF_BLOCK. */
struct deltaprof_block_record {
    const uintptr_t *stack;
    size_t depth;
    int64_t contentions, delay_ns;
    uint64_t id; /* as above */
};

/*
 * Writes the changes since the last success. Records and stacks are only read, and only until the call returns.
 * rate_bytes: the mean bytes between samples of the source; <= 1: the values are not scaled. A record that has
 * fewer allocations or waits than last time, or less of their bytes or delay, was reset: it shows no alloc, and counts
 * from its new value. Records with the same key are summed. Stacks are cut to `depth` frames.
 *
 * fn NULL: nothing is written, and these records become the baseline. deltaprof_delta_skip makes the records of the
 * next call the baseline; a fork does the same in the child. Such a call shows in-use values and no alloc.
 *
 * Returns 0; fn's error; -EINVAL: the wrong kind or source, or NULL for records or a stack; -EBUSY: an earlier write
 * was neither committed nor abandoned; -ENOMEM: more stacks than `memory` has room for. All objects of a process
 * share `memory`: the default is enough for one object with 100,000 stacks of 32 frames, 96M for two. On any error the
 * baseline stays.
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
DELTAPROF_API int deltaprof_delta_reset_ids(struct deltaprof_delta *delta);

/* The same in two phases: deltaprof_delta_commit or deltaprof_delta_abandon must follow. */
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
