/* SPDX-License-Identifier: MIT */
/*
 * host/report/settings.h - the settings of all reports, which a running process may change, and what reports need
 * beforehand.
 */
#pragma once

#include "config/config.h"

/* An end of a profile's window, on the wall clock and on CLOCK_MONOTONIC. */
struct dp_window_edge {
    int64_t wall_ns, mono_ns;
};

/* Once, after dp_record_init. */
int dp_report_init(const struct dp_config *conf);
/*
 * Changes the settings. symbolize applies to each consumer without its own value; the others are defaults for new
 * consumers.
 */
void dp_report_tune(const struct dp_config *conf);
/* Copies the present settings; a single reply's own settings are merged into them. */
void dp_report_settings(struct dp_config *conf);
/* The present settings, which stay the same until unlock. wait false: NULL if they are being changed. */
const struct dp_config *dp_report_settings_lock(bool wait);
void dp_report_settings_unlock(void);

/* The time now; and the begin of the first window: the start, or the fork. Zero: not started. */
struct dp_window_edge dp_report_now(void);
struct dp_window_edge dp_report_origin(void);
/* When a command first turned the profiler on, in a process that began without it; 0: none did. Any thread. */
void dp_report_set_on_since(int64_t wall_ns);
int64_t dp_report_on_since(void);
/*
 * In a process that has copied the tables of another one: that one's begin, and the end of the next profiles' windows;
 * end zero: now.
 */
void dp_report_adopt(struct dp_window_edge begin, struct dp_window_edge end);
/* The size of a thread's stack by default. */
size_t dp_report_stack_bytes(void);

/*
 * Opens the modules that reports need, while that is possible: a child forked from a process with threads cannot open
 * any. Takes the loader's lock.
 */
void dp_report_load(const struct dp_config *conf);
void dp_report_load_gzip(void);    /* the same of the gzip module only; logs if it cannot be opened */
void dp_report_fork_prepare(void); /* in the parent, before a fork. Only stores. */
/*
 * In the parent, before a fork: finds out what each child would have to find out for its own report: the mappings of
 * the loaded files, the machine's boot id. Costs about as much as one child would pay. Async-signal-safe.
 */
void dp_report_learn_for_children(void);
/*
 * In a forked child, before its first report: drops caches, locks and sessions of the parent without reading them. Only
 * stores.
 */
void dp_report_fork_child(void);
