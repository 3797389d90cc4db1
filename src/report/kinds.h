/* SPDX-License-Identifier: MIT */
/* report/kinds.h - describes the values of each kind of profile: types, units and period, as in Go's profiles. */
#pragma once

#include "base/config.h"
#include "pprof/encode.h"

#define DP_VALUES_MAX 4

/* A kind with the types that one consumer asked for: the columns `first` .. `first + n_types - 1` of its rows. */
struct dp_kind {
    const struct dp_encode_value_type *types;
    size_t first, n_types;
    struct dp_encode_value_type period_type;
    bool inuse_only; /* no column is a delta: duration 0 */
};

/* kind: enum deltaprof_kind. -EINVAL: no such kind. */
int dp_kind_describe(unsigned kind, enum dp_types types, struct dp_kind *out);
