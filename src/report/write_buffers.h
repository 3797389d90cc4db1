/* SPDX-License-Identifier: MIT */
/*
 * report/write_buffers.h - the buffers of a write: rows, locations, encoder, gzip stream. One set is kept between
 * writes, for the next consumer.
 */
#pragma once

#include "report/delta.h"
#include "report/location.h"

struct dp_write_buffers {
    struct dp_rows rows; /* rows of the current write, then of the pending one */
    struct dp_locations locations;
    struct dp_encode *encode; /* NULL until it is used, as gzip */
    struct dp_gzip *gzip;
};

/* Returns the kept set, or a new one; without rows. NULL: no memory. */
struct dp_write_buffers *dp_write_buffers_get(void);

/* Keeps the set if none is kept and it has at most keep_bytes; else frees it. Takes NULL. */
void dp_write_buffers_put(struct dp_write_buffers *, size_t keep_bytes);
