/* SPDX-License-Identifier: MIT */
/* pprof/model_compact.h - how old things leave a model: what is still spoken of moves to a new one. */
#pragma once

#include "pprof/model.h"

struct dp_compact {
    struct dp_model *from;
    struct dp_model to;
    DP_VEC(uint32_t) locations; /* new number + 1 by the old one */
    DP_VEC(uint32_t) key;
    DP_VEC(struct dp_model_line) lines;
};

/* begin, row for each to keep (they are numbered from 0 in that order), end: the model is then the new one; with an
 * error, the old. */
int dp_compact_begin(struct dp_compact *, struct dp_model *);
int dp_compact_row(struct dp_compact *, uint32_t row);
void dp_compact_end(struct dp_compact *, int error);

/* Bytes of what the model holds, old or not. */
size_t dp_model_size(const struct dp_model *);
