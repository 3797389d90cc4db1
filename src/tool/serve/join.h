/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/join.h - joins deltas of several processes and times into one profile. Flows (types of which events are
 * counted) are summed; in-use values are those of the newest deltas only.
 */
#pragma once

#include "pprof/gzip.h"
#include "tool/serve/workers.h"

struct dp_serve_join {
    struct dp_serve_delta *const *deltas;
    size_t n;
    const struct dp_serve_delta *shape; /* if n is 0: the profile has the types of this one, and no rows; or NULL */
    const struct dp_serve_delta *less;  /* its flows are subtracted; NULL: nothing */
    unsigned turn;                      /* in-use values are those of the deltas of this turn (workers.h) */
    bool is_flow_only;                  /* the profile has no in-use values */
    bool without_pids;                  /* samples do not get the label pid */
    const char *default_type;           /* NULL: as in the deltas */
    int64_t from_ns, to_ns;             /* the window, ns of Unix time; from_ns 0: that of the deltas */
};

/* Writes the joined profile, not compressed. 0 or a negative errno; -ENODATA: neither deltas nor a shape. */
int dp_serve_join_write(const struct dp_serve_join *, dp_pprof_write_fn fn, void *ctx);
/* The same, returned as a delta of several processes. NULL: no memory, or a broken profile. */
struct dp_serve_delta *dp_serve_join_make(const struct dp_serve_join *, unsigned kind);

/* Adds up the values of a delta by type, at most DP_KIND_TYPES_MAX of them. Returns their number. */
size_t dp_serve_join_sums(const struct dp_serve_delta *, int64_t sums[DP_KIND_TYPES_MAX]);
