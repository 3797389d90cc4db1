/* SPDX-License-Identifier: MIT */
/* host/report/published_trace.h - finds the variable in which an OpenTelemetry SDK publishes each thread's trace. */
#pragma once

#include <stdbool.h>

/*
 * Finds the variable and passes its place to the hooks, if a file was loaded or unloaded since the last search. Does
 * nothing while trace contexts are not wanted, or in a child forked by a process with threads. Locks the loader.
 * Context: where dlopen may be called.
 */
void dp_report_find_published_trace(void);

/* wanted: whether events or labels have trace contexts. Context: init. */
void dp_report_want_published_trace(bool wanted);
