/* SPDX-License-Identifier: MIT */
/* host/http/index_page.h - writes the text replies: the index, the command line, names for addresses. */
#pragma once

#include "pprof/gzip.h"

#include <stdbool.h>

/*
 * Writes HTML with relative links: totals in words, each profile with its number of rows. cmdline: whether /cmdline is
 * served. 0, or fn's error.
 */
int dp_http_page_index(bool cmdline, dp_pprof_write_fn fn, void *ctx);

/* Writes the process's arguments, separated by NUL, as the kernel has them. */
int dp_http_page_cmdline(dp_pprof_write_fn fn, void *ctx);

/*
 * Writes `num_symbols: 1`, then a line `0xADDRESS name` for each "0x..." of text (n_bytes, separated by '+' or anything
 * else) that has a name. Opens symbol files: only on a thread of the profiler.
 */
int dp_http_page_symbol(const char *text, size_t n_bytes, dp_pprof_write_fn fn, void *ctx);
