/* SPDX-License-Identifier: MIT */
/* host/report/published_trace.h - finds the variable in which an OpenTelemetry SDK publishes each thread's trace. */
#pragma once

#include <stdbool.h>

/*
 * Looks for it, if a file was opened or closed since the last call. Does nothing while trace contexts are not wanted,
 * and in a child forked by a process with other threads. Takes the loader's lock. Context: any place where dlopen may
 * be called.
 */
void dp_report_find_published_trace(void);

/* Whether events or labels have trace contexts. Context: init. */
void dp_report_want_published_trace(bool wanted);
