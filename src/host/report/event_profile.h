/* SPDX-License-Identifier: MIT */
/*
 * host/report/event_profile.h - writes the events since the last success as one profile: a sample for each, with its
 * time.
 *
 * Sample types: alloc_objects, alloc_space, contentions and delay as in heap and block profiles, and mutex_contentions
 * and mutex_delay as in mutex profiles; so the sums are those of these profiles. Labels: those of the aggregated row,
 * and the numbers `end_timestamp_ns` (Unix time), `thread id`, and `duration` if it is not the delay: a short wait
 * that stands for several.
 *
 * One caller at a time. Context: outside hooks.
 */
#pragma once

#include "pprof/gzip.h"
#include "host/symbols/symbol.h"

/*
 * flags: DP_WRITE_NO_WAIT, DP_WRITE_RAW. files: opened as names need them, and left open. Returns 0; 1: there is no
 * event, fn was not called; fn's error, -ENOMEM or -EAGAIN. The events stay in the ring until deliver.
 */
int dp_report_events_write(unsigned flags, struct dp_symbols_files *files, dp_pprof_write_fn fn, void *ctx);
void dp_report_events_deliver(void); /* drops the events that the last write wrote */
void dp_report_events_fork_child(void);
