/* SPDX-License-Identifier: MIT */
/*
 * pprof/diff.h - what happened between two serialised profiles of one process, and then between the second and a third,
 * ...
 *
 * Flows (alloc_*, contentions, delay, or those that the caller names) are subtracted; everything else is a state and is
 * taken from the newer profile as it is. Equal to google/pprof's Merge with the older one scaled by -1 on the flows and
 * by 0 on the others.
 */
#pragma once

#include "pprof/model_write.h"

/* What becomes of a flow that went down, which no counter does: it was reset, or the process is another. */
enum dp_diff_negative {
    DP_DIFF_CLAMP, /* 0; the row's other values stand */
    DP_DIFF_DROP,  /* the row is left out */
    DP_DIFF_KEEP,  /* the negative number; rows that vanished are negative, too */
};

struct dp_diff {
    /* Set before the first add; zero is the default. */
    enum dp_diff_negative negative;
    const char *flows; /* "TYPE,TYPE,..." instead of alloc_*, contentions and delay */

    struct dp_model model;
    struct dp_write_header header; /* of the newest */
    int64_t end_ns;                /* of the one before it */
    uint32_t turn;                 /* how many have been added */
    DP_VEC(uint8_t) is_flow;       /* by type */
    DP_VEC(int64_t) values;        /* by row: what it was before, then what it is */
    DP_VEC(uint32_t) turns;        /* by row: when it was there last */
    size_t n_rows;                 /* there now */
    size_t compact_bytes;          /* the model's size when it held nothing old */
};

/* What a write found. */
struct dp_diff_result {
    size_t n_rows;      /* written */
    size_t n_went_down; /* rows with a flow that went down or vanished, whatever became of it */
};

/* Labels with this key are no part of a row. Before the first add. 0 or -ENOMEM. */
int dp_diff_ignore_label(struct dp_diff *, const char *key);

/*
 * Takes the next profile; the one before it is what write subtracts. 0; -EBADMSG with the line filled in, or -ENOMEM:
 * after those the diff is good for fini only. -EINVAL: a type in `flows` that no profile here has, with the line filled
 * in.
 */
int dp_diff_add(struct dp_diff *, const struct dp_decode *, struct dp_input_error *);

/*
 * Writes the newest less the one before, uncompressed; less nothing if it is the first. Rows of zeros are left out.
 * 0 or a negative errno; may be called again.
 */
int dp_diff_write(struct dp_diff *, dp_write_fn fn, void *ctx, struct dp_diff_result *);
void dp_diff_fini(struct dp_diff *);
