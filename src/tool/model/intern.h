/* SPDX-License-Identifier: MIT */
/*
 * tool/model/intern.h - finds or adds an entry of the model and returns its number; DP_INDEX_NONE: no memory. Strings,
 * functions and mappings that the entry refers to must be in the model. A known entry keeps its number; its details are
 * replaced by the newer ones.
 */
#pragma once

#include "tool/model/model.h"

int dp_model_intern_unknown(struct dp_model *, const void *bytes, size_t n_bytes, struct dp_model_unknown *);
uint32_t dp_model_intern_mapping(struct dp_model *, const struct dp_model_mapping *);
uint32_t dp_model_intern_function(struct dp_model *, const struct dp_model_function *);
/* Computes first_line, place, object and by_lines. */
uint32_t dp_model_intern_location(struct dp_model *, const struct dp_model_location *,
                                  const struct dp_model_line *lines);
uint32_t dp_model_intern_label(struct dp_model *, const struct dp_model_label *);
/* key: as in the model's words. */
uint32_t dp_model_intern_row(struct dp_model *, const uint32_t *key, size_t n_words);
/* Sorts a key's labels, so that keys can be compared. */
void dp_model_sort_labels(uint32_t *key);
