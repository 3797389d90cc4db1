/* SPDX-License-Identifier: MIT */
/* host/report/columns.h - the sample types of one profile: those of its kind that a consumer asked for. */
#pragma once

#include "config/config.h"
#include "pprof/encode.h"
#include "profile/kinds.h"

#define DP_VALUES_MAX DP_KIND_VALUES_MAX /* of a row */
#define DP_TYPES_MAX  DP_KIND_TYPES_MAX  /* with those that are added on demand */

/* The columns `first` .. `first + n_types - 1` of the kind's rows. */
struct dp_columns {
    struct dp_encode_value_type types[DP_TYPES_MAX];
    size_t first, n_types;
    bool levels_only; /* no column is a delta: duration 0 */
};

/* kind: of enum deltaprof_kind. -EINVAL: no such kind. */
int dp_columns_choose(unsigned kind, enum dp_types types, struct dp_columns *);

/* Adds n types on demand, from the one of that name on, if all that every row has are there. False: it is not so. */
bool dp_columns_add_group(unsigned kind, const char *first, size_t n, struct dp_columns *);

/* Whether all values of the kind's rows up to the last one are there. */
bool dp_columns_have_last(unsigned kind, const struct dp_columns *);

bool dp_columns_have(const struct dp_columns *, const char *type);
