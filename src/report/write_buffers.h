/* SPDX-License-Identifier: MIT */
/*
 * report/write_buffers.h - what a write works with: rows, the set of locations, encoder, gzip stream. One set is kept
 * between writes, for whichever consumer comes next.
 */
#pragma once

#include "report/delta.h"
#include "report/location.h"

struct dp_write_buffers {
    struct dp_rows rows; /* of the write under way, then pending */
    struct dp_locations locations;
    struct dp_encode *encode; /* NULL until wanted, as gzip */
    struct dp_gzip *gzip;
};

/* The one that was kept, or another; without rows. NULL: no memory. */
struct dp_write_buffers *dp_write_buffers_get(void);

/* Kept if none is and it takes at most keep_bytes; else its memory goes back. Takes NULL. */
void dp_write_buffers_put(struct dp_write_buffers *, size_t keep_bytes);
