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

/* Of the cumulative profile of a kind as it is now: how many rows it has, and the sums of their values. */
struct dp_text_totals {
    size_t n_rows;
    int64_t alloc_bytes, inuse_objects, inuse_bytes; /* of heap */
    int64_t contentions, delay_ns;                   /* of block and mutex */
};
/* Zeros where there is no memory to look. */
void dp_text_total(unsigned kind, struct dp_text_totals *);
