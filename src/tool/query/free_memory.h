/* SPDX-License-Identifier: MIT */
/* tool/query/free_memory.h - what processes say of the memory that malloc holds free (comments #Free of types=waste),
 * and of memory that was not used (#Idle of types=idle).
 */
#pragma once

#include "pprof/decode.h"

/* Sums over processes, in bytes but for n_arenas: host/resident/free_chunks.h. */
struct dp_query_free {
    int64_t trim_bytes, pinned_bytes, arena_bytes, n_arenas, heap_bytes, unknown_bytes;
    int64_t top_bytes, cached_bytes;
    int64_t n_jemalloc, decay_bytes, n_background, n_never_decay; /* 0: no process has jemalloc */
    int64_t held_bytes; /* resident, of any allocator, beyond what is in use and that */
    int64_t zeros_unknown_bytes;
    int64_t idle_ms, idle_resident_bytes, untouched_bytes; /* host/resident/idle.h; idle_ms 0: not known */
    int64_t rounding_bytes; /* resident, by which the allocator rounds up the blocks in use */
};

/* Adds the comments of a profile; other profiles add nothing. */
void dp_query_free_add(struct dp_query_free *, const struct dp_decode *);
