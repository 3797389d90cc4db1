/* SPDX-License-Identifier: MIT */
/*
 * record/heap.h - the heap's events, seen from the core. The hooks themselves come in by <deltaprof/hooks.h>, whose
 * heap functions heap.c implements.
 */
#pragma once

#include <stdint.h>

/* Mean bytes between samples, from the next drawn distance on; 0: nothing new is sampled. Any thread. */
void dp_heap_tune(int64_t rate);
int64_t dp_record_heap_rate(void);

/* The calling thread draws a new distance at its next event: changed rates hold for it at once. Not under the guard. */
void dp_record_rearm(void);

/*
 * Bytes that passed the countdowns so far, sampled or not, for "no sample" messages: behind by what threads took since
 * their last sample, except the calling one after flush_bytes, which does nothing under the guard.
 */
void dp_record_flush_bytes(void);
uint64_t dp_record_bytes_seen(void);
