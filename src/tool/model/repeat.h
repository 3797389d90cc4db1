/* SPDX-License-Identifier: MIT */
/*
 * tool/model/repeat.h - recognizes the row of a sample by the sample's bytes, without parsing it.
 *
 * In successive profiles of one process nearly every sample has the same bytes of stack and labels as before, in the
 * same order; only values differ. That is valid only while ids and string indexes keep their meaning: a profile that
 * changes a meaning clears everything.
 */
#pragma once

#include "pprof/decode.h"

#include <stdbool.h>

/* Zero is empty. */
struct dp_model_repeat {
    DP_VEC(uint8_t) bytes;    /* per row: two lengths, then the bytes of locations and labels */
    DP_VEC(uint32_t) offsets; /* per row: offset in bytes + 1; 0: not known */
    bool is_on;               /* the ids of this profile allow comparing bytes */
};

/* The parts of a sample that has exactly these parts in this order, as all supported producers write it. */
struct dp_model_repeat_sample {
    struct dp_decode_span locations, values, rest; /* rest: labels */
};

/* Begins a profile. ids_hold: every id and string index of the profile before means the same in this one. */
void dp_model_repeat_begin(struct dp_model_repeat *, const struct dp_decode *, bool ids_hold);

/* Splits sample i into its parts. False: the sample has another form, and can be neither found nor kept. */
bool dp_model_repeat_split(const struct dp_model_repeat *, const struct dp_decode *, size_t i,
                           struct dp_model_repeat_sample *);

/* Whether the sample has the same bytes as that row. */
bool dp_model_repeat_is(const struct dp_model_repeat *, const struct dp_decode *, const struct dp_model_repeat_sample *,
                        uint32_t row);

/* Remembers the sample's bytes for that row. 0 or -ENOMEM. */
int dp_model_repeat_keep(struct dp_model_repeat *, const struct dp_decode *, const struct dp_model_repeat_sample *,
                         uint32_t row);

void dp_model_repeat_fini(struct dp_model_repeat *);
