/* SPDX-License-Identifier: MIT */
/*
 * host/heap/heap.h - settings and counters of the heap's hooks, for the core. The hooks themselves are declared in
 * <deltaprof/heap.h>; heap.c implements them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Sets the mean bytes between samples, from the next drawn distance on; 0: no new samples. Any thread. */
void dp_heap_tune(int64_t rate);
int64_t dp_heap_rate(void);

/* on: a thread that allocates enters its sampled path every few milliseconds also while no samples are wanted. */
void dp_heap_watch_commands(bool on);

/*
 * Makes the calling thread draw a new distance at its next event, so that changed rates apply at once. Not under the
 * guard.
 */
void dp_heap_rearm(void);

/*
 * All bytes allocated so far, sampled or not, for "no sample" messages. Bytes since the last sample of a thread are
 * missing, except those of the calling thread after flush_bytes, which does nothing under the guard.
 */
void dp_heap_flush_bytes(void);
uint64_t dp_heap_bytes_seen(void);
