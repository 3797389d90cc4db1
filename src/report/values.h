/* SPDX-License-Identifier: MIT */
/*
 * report/values.h - the values in a runtime's stacks: which frame each is, kept from profile to profile, and which
 * location it has in the one that is being written.
 */
#pragma once

#include "base/mem.h"
#include "record/frames.h"

#define DP_VALUES_WAYS 2

/* Values that hash alike. 0 is a free place: the value 0 is not kept here. */
struct dp_values_bucket {
    uintptr_t value[DP_VALUES_WAYS];
    uint32_t ref[DP_VALUES_WAYS];      /* dp_encode_ref of its location; 0: not met in this profile */
    dp_frame_id frame[DP_VALUES_WAYS]; /* 0: to be asked for in each profile */
};

/* Zero is an empty one. One writer at a time. */
struct dp_values {
    struct dp_values_bucket *at;
    size_t n_buckets, n, n_frames; /* values, and those of them with a frame */
    unsigned shift;                /* 64 - log2 of n_buckets */
    uint32_t generation;           /* of record/frames.h, in which the frames were found */
    DP_VEC(uint32_t) given;        /* places with a ref */
};

/* Before a profile: forgets frames of objects that are gone. */
void dp_values_begin(struct dp_values *);

/*
 * refs of n values that were met in this profile and lie where most do; 0 for others. Returns whether there are no
 * others.
 */
bool dp_values_refs(const struct dp_values *, const uintptr_t *values, size_t n, uint32_t *refs);

/* The place of a value that is not 0, made if it is new; good until the next call. SIZE_MAX: no memory. */
size_t dp_values_place(struct dp_values *, uintptr_t value);
/* Gives a place its location, not 0. -ENOMEM. */
int dp_values_give(struct dp_values *, size_t place, uint32_t ref);

static inline uint32_t *dp_values_ref(const struct dp_values *v, size_t place)
{
    return &v->at[place / DP_VALUES_WAYS].ref[place % DP_VALUES_WAYS];
}

/* The frame that a place keeps; 0: none. */
static inline dp_frame_id dp_values_frame(const struct dp_values *v, size_t place)
{
    return v->at[place / DP_VALUES_WAYS].frame[place % DP_VALUES_WAYS];
}
/* Keeps a frame, not 0, where there was none. */
static inline void dp_values_keep(struct dp_values *v, size_t place, dp_frame_id frame)
{
    v->at[place / DP_VALUES_WAYS].frame[place % DP_VALUES_WAYS] = frame;
    v->n_frames++;
}

/* After a profile: its locations are forgotten; everything is, when it takes more than budget_bytes or spares little.
 */
void dp_values_end(struct dp_values *, size_t budget_bytes);
void dp_values_fini(struct dp_values *);
