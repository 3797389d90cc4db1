/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/saved_part.h - the layout of the file of cursors: parts, each with a profile or without one. The state is
 * HEAD, PROCESS..., TOTAL and ENDED..., {CURSOR, PENDING, SENT}..., END; of these all are there, or the file is
 * damaged. What was appended follows; its last part is incomplete if the server was killed as it was written, and then
 * had no effect.
 */
#pragma once

#include "tool/serve/cursors.h"

#define DP_SERVE_SAVED_NAME  DP_TABLES_CURSORS_FILE
#define DP_SERVE_SAVED_MAGIC "deltaprof-cursors 3" /* changes with struct dp_serve_saved_part */

enum dp_serve_saved_type {
    DP_SERVE_SAVED_HEAD,
    DP_SERVE_SAVED_PROCESS, /* whose table was there */
    DP_SERVE_SAVED_TOTAL,   /* of a process and a kind, since the start */
    DP_SERVE_SAVED_ENDED,   /* of all processes whose tables were deleted */
    DP_SERVE_SAVED_CURSOR,
    DP_SERVE_SAVED_PENDING, /* of the CURSOR before */
    DP_SERVE_SAVED_SENDING, /* of the same, without an answer */
    DP_SERVE_SAVED_END,     /* of the state */
    DP_SERVE_SAVED_DELTA,   /* what follows is appended */
    DP_SERVE_SAVED_DETACH,
    DP_SERVE_SAVED_SETTLE,
    DP_SERVE_SAVED_TYPES,
};

enum {                                  /* flags */
       DP_SERVE_SAVED_IS_SENT = 1,      /* CURSOR */
       DP_SERVE_SAVED_IS_LAST = 2,      /* END: nothing follows */
       DP_SERVE_SAVED_ACKNOWLEDGES = 4, /* DETACH */
       DP_SERVE_SAVED_WENT_BACK = 8,    /* DETACH */
};

struct dp_serve_saved_part {
    uint64_t check; /* hash of the rest of the part, and of the profile that follows */
    uint32_t type, kind;
    int32_t pid;
    uint32_t flags;
    uint64_t first, seq; /* of a cursor; HEAD: n_ended in first; SETTLE: enum dp_serve_saved_end in first */
    int64_t from_ns;     /* of a list of deltas; HEAD: first_ns; DELTA: the begin of its process, or 0 */
    int64_t at_ns;       /* of a cursor: when it was used; Unix time */
    uint64_t n_bytes;    /* of a gzipped profile that follows; 0: none */
    char name[72];       /* of a cursor or a table; HEAD: MAGIC */
    uint8_t was_on[8];   /* HEAD: by kind; 8 bytes, because padding would be hashed */
};
_Static_assert(DP_KIND_TABLES <= 8, "each kind with records has a byte");
_Static_assert(DP_CURSOR_NAME_MAX < 72 && DP_TABLE_NAME_MAX <= 72, "a name fits");
