/* SPDX-License-Identifier: MIT */
/*
 * host/report/write_buffers.h - the buffers that writing a profile needs: rows, locations, encoder, gzip stream. One
 * set is kept for the next profile.
 */
#pragma once

#include "host/report/delta.h"
#include "host/report/location.h"

struct dp_report_write_buffers {
    struct dp_rows rows; /* of the current write, then of the pending one */
    struct dp_locations locations;
    struct dp_encode *encode; /* NULL until the first open; gzip too */
    struct dp_gzip *gzip;
};

/* Returns the kept set, or a new one, without rows. NULL: no memory. */
struct dp_report_write_buffers *dp_report_write_buffers_get(void);

/*
 * Allocates the memory that every profile needs, before rows use the rest. 0 or -ENOMEM. raw: as for open.
 */
int dp_report_write_buffers_prepare(struct dp_report_write_buffers *, bool raw);

/*
 * open begins a profile that is written to fn, gzipped unless raw, and returns its encoder. NULL: no memory. close,
 * with the error of encoding so far: if that is 0, ends the profile and the gzip stream. Returns err, or its own error.
 */
struct dp_encode *dp_report_write_buffers_open(struct dp_report_write_buffers *, bool raw, dp_pprof_write_fn fn,
                                               void *ctx);
int dp_report_write_buffers_close(struct dp_report_write_buffers *, bool raw, int err);

/* Keeps the set and frees the one that was kept. A set of more than keep_bytes is freed instead. Takes NULL. */
void dp_report_write_buffers_put(struct dp_report_write_buffers *, size_t keep_bytes);
