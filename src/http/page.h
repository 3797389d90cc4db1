/* SPDX-License-Identifier: MIT */
/*
 * http/page.h - the replies that are text: the index, the command line, addresses to names.
 */
#pragma once

#include "pprof/gzip.h"

#include <stdbool.h>

/* HTML with relative links: totals in words, every profile with its number of rows; cmdline: whether that is served. 0,
 * or fn's error.
 */
int dp_page_index(bool cmdline, dp_write_fn fn, void *ctx);

/* The process's arguments, separated by NUL, as the kernel has them. */
int dp_page_cmdline(dp_write_fn fn, void *ctx);

/* `num_symbols: 1`, then a line `0xADDRESS name` for each "0x..." of text (n_bytes, separated by '+' or anything else)
 * that has a name. Opens symbol files: for a thread of ours. */
int dp_page_symbol(const char *text, size_t n_bytes, dp_write_fn fn, void *ctx);
