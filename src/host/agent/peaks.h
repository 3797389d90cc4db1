/* SPDX-License-Identifier: MIT */
/*
 * host/agent/peaks.h - decides when the background thread ticks because of a peak: a tenth more is in use than at the
 * highest tick.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Waits for the next peak above the highest tick; wake is then called once, in the middle of an allocation of the
 * program, so it must be async-signal-safe. wanted false: waits for none.
 */
void dp_agent_peaks_watch(bool wanted, void (*wake)(void));

/* When a tick for a peak is due, on CLOCK_MONOTONIC; INT64_MAX: no peak was reached. */
int64_t dp_agent_peaks_due_ns(void);

/* A tick of the thread begins, for whatever reason: it covers a peak that was reached. Also when the thread begins. */
void dp_agent_peaks_begin_tick(void);

/* Performs the tick, and measures its CPU time. */
void dp_agent_peaks_tick(void);

/* In a forked child: inherited memory makes no peak. */
void dp_agent_peaks_fork_child(void);
