/* SPDX-License-Identifier: MIT */
/* host/agent/summary.h - summarizes a process's heap for the log line at its end: allocated, peak, in use. */
#pragma once

#include <stdint.h>
#include <stddef.h>

/* Reads the offset of local time from UTC, which `deltaprof run` passes on. Context: init. */
void dp_agent_summary_init(void);

/* Notes the in-use bytes of a tick at time_ns (wall clock). Any thread, one at a time. */
void dp_agent_summary_tick(int64_t inuse_bytes, int64_t time_ns);

/* Writes "158 MB allocated, peak 148 MB at 12:04:31, 25 MB in use at exit"; "" without a tick. Async-signal-safe. */
void dp_agent_summary_text(char *to, size_t n_bytes, int64_t allocated_bytes);

/* Clears the numbers in a forked child. */
void dp_agent_summary_fork_child(void);
