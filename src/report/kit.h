/* SPDX-License-Identifier: MIT */
/*
 * report/kit.h - what a write works with: rows, the set of locations, encoder, gzip stream. One kit is kept between
 * writes, for whichever consumer comes next.
 */
#pragma once

#include "report/delta.h"
#include "report/location.h"

struct dp_kit {
    struct dp_rows rows; /* of the write under way, then pending */
    struct dp_locations locations;
    struct dp_encode *encode; /* NULL until wanted, as gzip */
    struct dp_gzip *gzip;
};

/* The one that was kept, or another; without rows. NULL: no memory. */
struct dp_kit *dp_kit_take(void);

/* Kept if none is and it takes at most keep_bytes; else its memory goes back. Takes NULL. */
void dp_kit_give(struct dp_kit *, size_t keep_bytes);
