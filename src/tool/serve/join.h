/* SPDX-License-Identifier: MIT */
/* tool/serve/join.h - joins deltas of several processes and times into one profile. */
#pragma once

#include "pprof/gzip.h"
#include "tool/serve/workers.h"

struct dp_serve_join {
    struct dp_serve_delta *const *deltas;
    size_t n;
    const struct dp_serve_delta *shape; /* without deltas: the profile has no rows, and this one's types; or NULL */
    unsigned turn;                      /* in-use values of deltas of this turn count */
    bool is_flow_only;                  /* none counts */
    bool without_pids;                  /* else samples get the label pid */
    const char *default_type;           /* NULL: as in the deltas */
    int64_t from_ns, to_ns;             /* the window, ns of Unix time; from_ns 0: that of the deltas */
};

/* Writes the joined profile, not compressed. 0 or a negative errno. */
int dp_serve_join_write(const struct dp_serve_join *, dp_pprof_write_fn fn, void *ctx);
/* The same as a delta of no process. NULL: no memory, or a broken profile. */
struct dp_serve_delta *dp_serve_join_make(const struct dp_serve_join *, unsigned kind);

/* Adds up the values of a delta by type, at most DP_KIND_TYPES_MAX of them. Returns their number. */
size_t dp_serve_join_sums(const struct dp_serve_delta *, int64_t sums[DP_KIND_TYPES_MAX]);
