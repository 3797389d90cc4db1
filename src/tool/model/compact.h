/* SPDX-License-Identifier: MIT */
/* tool/model/compact.h - removes unused entries from a model, by copying the used ones to a new model. */
#pragma once

#include "tool/model/model.h"

struct dp_model_compact {
    struct dp_model *from;
    struct dp_model to;
    DP_VEC(uint32_t) locations; /* by old number: new number + 1 */
    DP_VEC(uint32_t) key;
    DP_VEC(struct dp_model_line) lines;
};

/*
 * Call begin, then row for each row to keep (they are numbered from 0 in that order), then end. The model is then the
 * new one, or, after an error, the old one.
 */
int dp_model_compact_begin(struct dp_model_compact *, struct dp_model *);
int dp_model_compact_row(struct dp_model_compact *, uint32_t row);
void dp_model_compact_end(struct dp_model_compact *, int err);

/* Bytes of all entries of the model, used or not. */
size_t dp_model_size(const struct dp_model *);
