/* SPDX-License-Identifier: MIT */
/*
 * pprof/model_intern.h - the model's numbers for things given by value; the strings, functions and mappings that they
 * name are the model's already. DP_INDEX_NONE: no memory. A thing that is known keeps its number; its particulars
 * become the newer.
 */
#pragma once

#include "pprof/model.h"

int dp_intern_unknown(struct dp_model *, const void *bytes, size_t n_bytes, struct dp_model_unknown *);
uint32_t dp_intern_mapping(struct dp_model *, const struct dp_model_mapping *);
uint32_t dp_intern_function(struct dp_model *, const struct dp_model_function *);
/* first_line, place, object and by_lines are found here. */
uint32_t dp_intern_location(struct dp_model *, const struct dp_model_location *, const struct dp_model_line *lines);
uint32_t dp_intern_label(struct dp_model *, const struct dp_model_label *);
/* key: as in the model's words. */
uint32_t dp_intern_row(struct dp_model *, const uint32_t *key, size_t n_words);
/* Puts a key's labels into the order in which they are compared. */
void dp_model_sort_labels(uint32_t *key);
