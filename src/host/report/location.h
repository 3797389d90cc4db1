/* SPDX-License-Identifier: MIT */
/*
 * host/report/location.h - turns frames into location ids of one profile. A location is written when its frame is first
 * met; mappings follow at the end.
 */
#pragma once

#include "base/mem.h"
#include "config/config.h"
#include "pprof/encode.h"
#include "host/report/line_functions.h"
#include "host/symbols/maps.h"
#include "host/symbols/symbol.h"

#include <deltaprof/deltaprof.h>

/* A mapping of the profile: index, variant, and the properties that all its locations have. */
struct dp_location_mapping {
    struct dp_symbols_mapping map;
    uint32_t index; /* of host/symbols/maps.h */
    uint8_t has_lines, has_files, has_numbers, has_inlines;
};

struct dp_location_settings {
    enum dp_symbolize symbolize;
    enum dp_address address;
    bool no_wait;                   /* -EAGAIN if another thread holds the symbols lock */
    struct dp_symbols_files *files; /* opened as names need them, and left open; NULL, if no_wait */
};

/* The location of an address in a function that a signal interrupted. */
struct dp_location_exact {
    dp_frame_id function;
    uint32_t distance, ref; /* ref 0: an empty place */
};

/* The locations of frames. */
struct dp_location_map {
    DP_VEC(uint32_t) refs;   /* by frame: dp_encode_ref of its location; 0: not met yet */
    DP_VEC(dp_frame_id) met; /* the frames with a location in refs */
};

/* Zeroed is a valid start. Between begin and end only the functions here write it. */
struct dp_locations {
    struct dp_encode *encode;
    struct dp_location_settings settings;
    int err;
    uint32_t n_missed; /* with no_wait: number of frames that got no name, because none was cached */
    struct dp_location_map by_frame, reversed; /* reversed: locations with the outermost line first */
    struct {
        struct dp_location_exact *at; /* a hash table; 0 or a power of two, at most half full */
        size_t n, cap;
        size_t n_used;
    } exact;
    DP_VEC(uint32_t) ids; /* mapping id of the profile, by 2 * mapping index + has_lines; 0: not used */
    DP_VEC(struct dp_location_mapping) mappings; /* by id - 1 */
    uint64_t anon_start[2], anon_limit[2];       /* range of [anon], by has_lines */
    struct dp_line_functions functions;
    struct {                  /* of the last kept line, if it is usual */
        uint32_t mapping, id; /* id 0: there was none */
        uint64_t bias;        /* subtracted from addresses */
        bool has_file;
    } usual;
};

/* Gets memory for the locations of all frames that are known. -ENOMEM. */
int dp_locations_prepare(struct dp_locations *);

/* Begins a profile; its locations are written to encode. Returns 0, or -errno: then end must not be called. */
int dp_locations_begin(struct dp_locations *, struct dp_encode *encode, const struct dp_location_settings *settings);

/*
 * The locations of a stack, as dp_encode_refs; map: one of l. Locks the symbols lock for look-ups, once per call. After
 * an error, which end returns, some are 0.
 */
void dp_locations_stack_in(struct dp_locations *l, struct dp_location_map *map, const dp_frame_id *frames, size_t n,
                           uint32_t *refs);
static inline void dp_locations_stack(struct dp_locations *l, const dp_frame_id *frames, size_t n, uint32_t *refs)
{
    dp_locations_stack_in(l, &l->by_frame, frames, n, refs);
}
/* The same of a stack that is written from its root to its leaf: in a location, inlined functions have that order too.
 */
static inline void dp_locations_stack_reversed(struct dp_locations *l, const dp_frame_id *frames, size_t n,
                                               uint32_t *refs)
{
    dp_locations_stack_in(l, &l->reversed, frames, n, refs);
}
/*
 * The line of each frame, after dp_locations_stack has made its location. A caller may keep lines: dp_locations_line
 * makes the same location from them in a later profile. Frames without a name, or with several lines, have no line.
 */
void dp_locations_lines(struct dp_locations *, const dp_frame_id *frames, size_t n, struct dp_symbols_place *lines);
/* Makes a new location in each call. 0 after an error. */
uint32_t dp_locations_line(struct dp_locations *, const struct dp_symbols_place *line, uint64_t pc);
uint32_t dp_locations_frame(struct dp_locations *, dp_frame_id id);

/*
 * The location of the address that lies `distance` behind a function's beginning, which is the frame's address. With
 * symbolize=lines it has its own line while the table of frames has room to remember it, else that of the function.
 */
uint32_t dp_locations_exact(struct dp_locations *, dp_frame_id function, uint32_t distance);

/*
 * Makes a new location in each call: an address in [anon] with the name that a runtime gave, or without one. 0 after an
 * error.
 */
uint32_t dp_locations_named(struct dp_locations *, uint64_t address, const struct deltaprof_frame_name *name);

/*
 * Whether the calls since begin, or since the last call of this, failed only for want of memory. Then the error is
 * cleared: what they wrote is whole, and what needs no more memory can still be written.
 */
bool dp_locations_clear_no_memory(struct dp_locations *);

/* Writes the mappings and clears all but the memory. Returns 0, or the first error of this profile. */
int dp_locations_end(struct dp_locations *);
void dp_locations_fini(struct dp_locations *);
size_t dp_locations_bytes(const struct dp_locations *); /* its memory */
