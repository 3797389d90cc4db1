/* SPDX-License-Identifier: MIT */
/* delta/kinds.h - describes the values of each kind of profile: types, units and period, as in Go's profiles. */
#pragma once

#include "config/config.h"
#include "pprof/encode.h"

#define DP_VALUES_MAX 4 /* of a row */
#define DP_TYPES_MAX  7 /* with those of lifetimes */

/* A kind with the types that one consumer asked for: the columns `first` .. `first + n_types - 1` of its rows. */
struct dp_kind {
    const struct dp_encode_value_type *types;
    size_t first, n_types;
    struct dp_encode_value_type period_type;
    bool inuse_only;   /* no column is a delta: duration 0 */
    const char *title; /* comment that names the kind; NULL: the sample types name it */
};

/* kind: enum deltaprof_kind. -EINVAL: no such kind. */
int dp_kind_describe(unsigned kind, enum dp_types types, struct dp_kind *out);

/* Adds {freed_objects, temporary_objects, lifetime} to a heap with all types. False: it is another one. */
bool dp_kind_add_lifetimes(struct dp_kind *kind);
