/* SPDX-License-Identifier: MIT */
/*
 * report/text.h - what is asked for as text: a cumulative profile in the form that people read and pprof reads back,
 * and names for addresses. Context: above the waterline.
 */
#pragma once

#include "pprof/gzip.h"

#include <stddef.h>
#include <stdint.h>

/* Go's debug=1 form. 0, fn's error, -EINVAL (no such kind) or -ENOMEM. */
int dp_text_write_profile(unsigned kind, dp_write_fn fn, void *ctx);

/* A line `0xADDRESS name` for each address that is a frame of some record and has a name. 0, or fn's error. */
int dp_text_write_symbols(const uintptr_t *addresses, size_t n, dp_write_fn fn, void *ctx);

/* How many rows the cumulative profile of a kind has now. */
size_t dp_text_count_rows(unsigned kind);
