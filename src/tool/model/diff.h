/* SPDX-License-Identifier: MIT */
/*
 * tool/model/diff.h - computes what happened between each two successive profiles of one process.
 *
 * Flows (alloc_*, contentions, delay, or those that the caller names) are subtracted; everything else is a state and is
 * taken from the newer profile as it is. The result equals google/pprof's Merge, with the older profile scaled by -1 on
 * flows and by 0 on the others.
 */
#pragma once

#include "tool/model/write.h"

/* How to treat a flow that went down. A counter never does: it was reset, or this is another process. */
enum dp_model_diff_negative {
    DP_DIFF_CLAMP, /* count it as 0, keep the row's other values */
    DP_DIFF_DROP,  /* leave the row out */
    DP_DIFF_KEEP,  /* write the negative number; rows that vanished are negative too */
};

struct dp_model_diff {
    /* Set before the first add; zero is the default. */
    enum dp_model_diff_negative negative;
    const char *flows; /* "TYPE,TYPE,..." instead of alloc_*, contentions and delay */

    struct dp_model model;
    struct dp_model_header header; /* of the newest profile */
    int64_t end_ns;                /* of the profile before it */
    uint32_t turn;                 /* number of profiles added so far */
    DP_VEC(uint8_t) is_flow;       /* per sample type */
    DP_VEC(int64_t) values;        /* per row: the values before, then the values now */
    DP_VEC(uint32_t) turns;        /* per row: the turn in which it was last seen */
    size_t n_rows;                 /* rows in the newest profile */
    size_t compact_bytes;          /* the model's size when it held no unused entries */
};

/* The result of a write. */
struct dp_model_diff_result {
    size_t n_rows;      /* written */
    size_t n_went_down; /* rows with a flow that went down or vanished, however treated */
};

/* Ignores labels with this key: rows that differ only in it are one row. Before the first add. 0 or -ENOMEM. */
int dp_model_diff_ignore_label(struct dp_model_diff *, const char *key);

/*
 * Adds the next profile; write subtracts the one before it. Returns 0; -EBADMSG with *error filled in, or -ENOMEM: then
 * only fini may follow; -EINVAL with *error filled in: `flows` names a type that the profile does not have.
 */
int dp_model_diff_add(struct dp_model_diff *, const struct dp_decode *, struct dp_decode_error *);

/*
 * Writes the newest profile minus the one before it (the first as it is), uncompressed. Rows of zeros are left out.
 * Returns 0 or a negative errno; may be called again.
 */
int dp_model_diff_write(struct dp_model_diff *, dp_pprof_write_fn fn, void *ctx, struct dp_model_diff_result *);
void dp_model_diff_fini(struct dp_model_diff *);
