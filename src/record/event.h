/* SPDX-License-Identifier: MIT */
/*
 * record/event.h - the hot corridor seen from the core: what starts, retunes and stops it. The hooks themselves
 * come in by <deltaprof/hooks.h>, whose functions event.c implements.
 */
#pragma once

#include "base/config.h"
#include "record/table.h"

#include <deltaprof/hooks.h>

/* Maps the tables within memory, once; later calls only retune. -ENOMEM: nothing. Context: init. */
int dp_record_init(const struct dp_config *conf);

/* Rates in force from the next drawn distance on. heap_rate 0, or `on` false: nothing new is sampled. Any thread. */
void dp_record_tune(const struct dp_config *conf, bool on);
int64_t dp_record_heap_rate(void);

/* 0 in the process that started; +1 with every fork on the way here. */
uint32_t dp_record_epoch(void);

/*
 * Adds (n, v) to the record of this stack, made if it is new. false: nothing was kept (there are no tables yet, or a
 * forked child is just finding its zero). Context: hook, with the countdown guarded.
 */
bool dp_record_add(unsigned kind, uint8_t heap, uint32_t labels, const struct dp_stack *stack, int64_t n, int64_t v,
                   dp_record_id *id);

/*
 * fork, in the order of pthread_atfork. The child's handler only stores. The child's zero, the counters at the fork, is
 * copied by its first event or report, whichever comes first.
 */
void dp_record_fork_prepare(void);
void dp_record_fork_parent(void);
void dp_record_fork_child(void);

/*
 * The child's zero of a record, for readers: 0 in a process that was not forked, or for an id beyond the fork's count.
 * Call dp_record_fork_copy_zero before reading counters at a report; false (only while another thread is at it): ask
 * again.
 */
bool dp_record_fork_copy_zero(void);
void dp_record_fork_base(unsigned kind, dp_record_id id, int64_t *n, int64_t *v);

/* The calling thread draws a new distance at its next event: changed rates hold for it at once. Not under the guard. */
void dp_record_rearm(void);

/*
 * Bytes that passed the countdowns so far, sampled or not, for "no sample" messages: behind by what threads took since
 * their last sample, except the calling one after flush_bytes, which does nothing under the guard.
 */
void dp_record_flush_bytes(void);
uint64_t dp_record_bytes_seen(void);

/* What stats of the tables stand at now: samples, records, live and the losses; the rest of *stats is left alone. */
void dp_record_stats(struct deltaprof_stats *stats);

/* The name that a heap was registered with, for as long as the process lives; NULL for 0 and for unknown ids. Any
 * thread. */
const char *dp_heap_name(uint32_t heap);
