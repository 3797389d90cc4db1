/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/maps.h - finds the mapping of a frame of code, as /proc/self/maps shows it, and keeps it for the life of
 * the process.
 *
 * Known mappings are never dropped: a closed library keeps its mapping, even if its address range belongs to another
 * library now. Context: under the symbols lock.
 */
#pragma once

#include "host/objects/frames.h"

#include <stdint.h>

/* One executable segment of one object. Strings live for ever. */
struct dp_symbols_mapping {
    dp_object_id object;
    uintptr_t start, limit, offset, bias;
    const char *file;     /* as /proc/self/maps names it, without " (deleted)"; the link that the program was run by */
    const char *build_id; /* lower-case hex, "" if none */
};

/* These exist always. MAIN is the main program; ANON is code without a file, and has no range. */
enum { DP_MAPPING_MAIN, DP_MAPPING_ANON };

/* At the start of a report: allows reading /proc/self/maps again, if a frame needs it. -ENOMEM. */
int dp_symbols_maps_begin(void);

/* The mapping of a code frame, an index below dp_symbols_maps_count. Never fails: at worst it is DP_MAPPING_ANON. */
uint32_t dp_symbols_maps_find(dp_frame_id id);

/* A mapping of this object, for its file and its bias: the range may be that of other code, or empty. */
uint32_t dp_symbols_maps_of_object(dp_object_id object);

uint32_t dp_symbols_maps_count(void);
struct dp_symbols_mapping dp_symbols_maps_get(uint32_t index);

/* Reads /proc/self/maps for children that will be forked: they read it only for what is not in it. Async-signal-safe.
 */
void dp_symbols_maps_learn(void);

/* Drops everything without reading it: for a forked child whose parent was changing it. */
void dp_symbols_maps_abandon(void);
