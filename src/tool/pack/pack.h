/* SPDX-License-Identifier: MIT */
/*
 * tool/pack/pack.h - many profiles in the form that the page of `deltaprof view` reads: each string, frame and stack
 * once, and for each tick only what changed.
 *
 * src/view/pack.js describes the format. Values that say what is in use are stored as differences to the tick before
 * of the same process; a day of ticks of one server is then a few megabytes.
 */
#pragma once

#include "tool/query/frame_names.h"
#include "pprof/decode.h"
#include "pprof/gzip.h"
#include "pprof/strings.h"

/* Where a profile comes from. */
struct dp_pack_source {
    const char *kind; /* heap, mutex, block, or a name for another producer's profiles */
    const char *program, *pid, *host;
};

struct dp_pack_tick {
    size_t kind;
    int64_t end_us;
    size_t offset, n_bytes; /* in bytes: process, duration and so on; the end stands before it when it is written */
    uint32_t process;
    bool closes; /* the process ended: takes back what it has in use */
};

struct dp_pack_kind {
    uint32_t name;
    struct dp_model model;
    struct dp_query_naming_frames frames;
    DP_VEC(int64_t) now, before; /* by row and type */
    DP_VEC(uint32_t) node;       /* by row */
    DP_VEC(uint32_t) labels;     /* by row */
    DP_VEC(uint32_t) stamp;      /* by row: the last tick that has it */
    DP_VEC(uint32_t) touched;    /* rows of this tick */
    DP_VEC(uint32_t) in_use;     /* rows with a level that is not 0 */
    uint32_t tick;
    int64_t last_end_us;
    uint32_t process;
    bool has_process;
    bool ended; /* the process's last profile says so */
};

/* A member of dp_pack.frames; its texts are numbers of strings. */
enum { DP_PACK_PASSES = 1, DP_PACK_FOREIGN = 2, DP_PACK_LIBRARY = 4 }; /* no code of the user; a language's library */
struct dp_pack_frame {
    uint32_t name, file, library, line, flags;
};

/* Zero is an empty one. */
struct dp_pack {
    struct dp_strings strings, frames, nodes, label_sets, processes;
    DP_VEC(struct dp_pack_kind) kinds;
    DP_VEC(struct dp_pack_tick) ticks;
    DP_VEC(uint8_t) bytes;
    DP_VEC(uint64_t)
    verdict; /* numbers that the page reads after the kinds: what `leaks` says; none: it was not asked */
    DP_VEC(uint64_t) sentences; /* of `summary`, four strings each: kind, text, verb, function */
    DP_VEC(uint64_t) sources;   /* numbers that the page reads last: lines of source files */
    size_t n_sources;
    const char *sides[2]; /* the caller's: the hosts of sources that are compared; NULL: none are */
};

/*
 * Adds a profile as one tick. Profiles of one process and kind come one after the other, in the order of time. 0,
 * -ENOMEM, or -EBADMSG with the line filled in.
 */
int dp_pack_add(struct dp_pack *, const struct dp_decode *, const struct dp_pack_source *, struct dp_decode_error *);

/* Adds a file of events, a tick for each 20 ms, as source->kind. Errors as of add. */
int dp_pack_add_moments(struct dp_pack *, const struct dp_decode *, const struct dp_pack_source *,
                        struct dp_decode_error *);

/*
 * The parts of an add. find_kind: the number of the kind, which now has the source's process. begin_tick; add_row for
 * rows of the kind's model, with a value for each of its types, at most DP_PACK_TYPES_MAX; end_tick. 0 or
 * -ENOMEM.
 */
enum { DP_PACK_TYPES_MAX = 32 };
int dp_pack_find_kind(struct dp_pack *, const struct dp_pack_source *, size_t *kind);
void dp_pack_begin_tick(struct dp_pack *, size_t kind);
int dp_pack_add_row(struct dp_pack *, size_t kind, uint32_t row, const int64_t *values);
int dp_pack_end_tick(struct dp_pack *, size_t kind, int64_t end_us, int64_t duration_us);

/*
 * A little varint; the same of a number in zigzag. The number of a text, or of any bytes, in a set: number 0 is the
 * empty one. 0 or -ENOMEM.
 */
int dp_pack_put(struct dp_pack *, uint64_t n);
int dp_pack_put_signed(struct dp_pack *, int64_t n);
int dp_pack_intern(struct dp_strings *set, const void *bytes, size_t n_bytes, uint32_t *number);
int dp_pack_intern_text(struct dp_pack *, const char *text, uint32_t *number);

/* The comments of a tick. d NULL: there are none. 0 or -ENOMEM. */
int dp_pack_put_comments(struct dp_pack *, const struct dp_decode *d);

/*
 * Adds source lines around the lines that frames of the user's own code have, from files of this machine with a full
 * path. Files that cannot be read are left out. 0 or -ENOMEM.
 */
int dp_pack_add_sources(struct dp_pack *);

/* Ends the process that came last: dp_pack_write does it. 0 or -ENOMEM. */
int dp_pack_close(struct dp_pack *);

/* Writes the pack, not compressed. Once, after the last profile. 0, -ENOMEM or fn's error. */
int dp_pack_write(struct dp_pack *, dp_pprof_write_fn fn, void *ctx);
void dp_pack_fini(struct dp_pack *);
