/* SPDX-License-Identifier: MIT */
/*
 * pprof/merge.h - many profiles as one: flows (alloc_*, contentions, delay, cpu, ...) are summed; what is in use
 * (inuse_*) is a state, of which only the newest of each process counts.
 */
#pragma once

#include "pprof/write.h"

/* Whether a profile's in-use values count. */
enum dp_merge_state {
    DP_MERGE_NEWEST, /* yes: the newest of its process */
    DP_MERGE_OLDER,  /* no: there is a newer one of its process */
    DP_MERGE_LOOSE,  /* its process is not known: yes, if it is the newest by time_nanos of its main program */
};

struct dp_merge_loose_row {
    uint32_t row;
    int64_t value;
    uint32_t type;
};

struct dp_merge_loose {
    uint32_t object; /* of the main program */
    int64_t time_ns;
    DP_VEC(struct dp_merge_loose_row) rows;
};

/* Zero is an empty one. */
struct dp_merge {
    struct dp_model model;
    struct dp_write_header header;
    DP_VEC(int64_t) values; /* model.rows.n times model.types.n; whole after settle */
    DP_VEC(struct dp_merge_loose) loose;
    size_t n_profiles;
};

/* A sum that overflows stays at the largest number. */
static inline void dp_merge_sum(int64_t *sum, int64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum))
        *sum = value < 0 ? INT64_MIN : INT64_MAX;
}

int dp_merge_is_state(const struct dp_merge *, size_t type);
/* 0, -EBADMSG with the line filled in, or -ENOMEM; after an error the merge is good for fini only. */
int dp_merge_add(struct dp_merge *, const struct dp_decode *, enum dp_merge_state, struct dp_input_error *);
/* Once, after the last add: brings in what the loose ones say. 0 or -ENOMEM. */
int dp_merge_settle(struct dp_merge *);
/* The merged profile, not gzipped; rows whose values are all 0 are left out. After settle. */
int dp_merge_write(struct dp_merge *, dp_write_fn fn, void *ctx);
void dp_merge_fini(struct dp_merge *);
