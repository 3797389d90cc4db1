/* SPDX-License-Identifier: MIT */
/*
 * host/report/write_buffers.h - the buffers of a write: rows, locations, encoder, gzip stream. One set is kept between
 * writes, for the next consumer.
 */
#pragma once

#include "host/report/delta.h"
#include "host/report/location.h"

struct dp_report_write_buffers {
    struct dp_rows rows; /* of the current write, then of the pending one */
    struct dp_locations locations;
    struct dp_encode *encode; /* NULL until it is used, as gzip */
    struct dp_gzip *gzip;
};

/* Returns the kept set, or a new one; without rows. NULL: no memory. */
struct dp_report_write_buffers *dp_report_write_buffers_get(void);

/*
 * Gets the memory that every profile needs, before rows take the rest. -ENOMEM. raw: as for open.
 */
int dp_report_write_buffers_prepare(struct dp_report_write_buffers *, bool raw);

/*
 * The encoder at the beginning of a message that goes to fn, gzipped unless raw. NULL: no memory. close ends the
 * message and the gzip stream if err is 0, and returns err or its own error.
 */
struct dp_encode *dp_report_write_buffers_open(struct dp_report_write_buffers *, bool raw, dp_pprof_write_fn fn,
                                               void *ctx);
int dp_report_write_buffers_close(struct dp_report_write_buffers *, bool raw, int err);

/* Keeps the set if none is kept and it has at most keep_bytes; else frees it. Takes NULL. */
void dp_report_write_buffers_put(struct dp_report_write_buffers *, size_t keep_bytes);
