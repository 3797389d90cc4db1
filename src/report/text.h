/* SPDX-License-Identifier: MIT */
/*
 * report/text.h - writes text: a cumulative profile in the format that people and pprof can read, and names for
 * addresses. Context: above the waterline.
 */
#pragma once

#include "pprof/gzip.h"

#include <stddef.h>
#include <stdint.h>

/* Writes Go's debug=1 format. 0, fn's error, -EINVAL (no such kind) or -ENOMEM. */
int dp_text_write_profile(unsigned kind, dp_write_fn fn, void *ctx);

/* Writes a line `0xADDRESS name` for each address that is a frame of a record and has a name. 0, or fn's error. */
int dp_text_write_symbols(const uintptr_t *addresses, size_t n, dp_write_fn fn, void *ctx);

/* Writes the name of a frame's code, of at most size - 1 bytes. Returns its length, 0: it has none. After
 * dp_maps_begin. */
struct dp_symbol_files;
size_t dp_text_name_of(struct dp_symbol_files *files, uint32_t frame, uintptr_t pc, char *name, size_t size);

/* The number of rows of the present cumulative profile of a kind, and the sums of their values. */
struct dp_text_totals {
    size_t n_rows;
    int64_t alloc_bytes, inuse_objects, inuse_bytes; /* of heap */
    int64_t contentions, delay_ns;                   /* of block and mutex */
};
/* Gives zeros if there is no memory for the scan. */
void dp_text_total(unsigned kind, struct dp_text_totals *);
