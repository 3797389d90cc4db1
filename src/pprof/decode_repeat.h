/* SPDX-License-Identifier: MIT */
/*
 * pprof/decode_repeat.h - knows a row by the bytes that a sample of it had last time, without taking them apart.
 *
 * In successive profiles of one process nearly every sample repeats its stack and labels byte for byte and in the same
 * order; only values differ. That holds while ids and string indexes mean what they meant: a profile that says
 * otherwise makes it forget everything.
 */
#pragma once

#include "pprof/decode.h"

#include <stdbool.h>

/* Zero knows nothing. */
struct dp_repeat {
    DP_VEC(uint8_t) bytes;    /* by row: two lengths, locations, labels */
    DP_VEC(uint32_t) offsets; /* + 1, by row; 0: not known */
    bool is_on;               /* this profile's ids are such that bytes can be compared */
};

/* What a sample is made of when it has just these in this order, as every producer here writes it. */
struct dp_repeat_sample {
    struct dp_decode_span locations, values, rest; /* rest: labels */
};

/* Begins a profile; ids_hold: every id and string index that the one before it had means the same here. */
void dp_repeat_begin(struct dp_repeat *, const struct dp_decode *, bool ids_hold);

/* 0: the sample is not of that shape, and can neither be found nor kept. */
int dp_repeat_take(const struct dp_repeat *, const struct dp_decode *, size_t i, struct dp_repeat_sample *);

/* Whether the sample says what that row said. */
bool dp_repeat_is(const struct dp_repeat *, const struct dp_decode *, const struct dp_repeat_sample *, uint32_t row);

/* The sample is one of that row's. 0 or -ENOMEM. */
int dp_repeat_keep(struct dp_repeat *, const struct dp_decode *, const struct dp_repeat_sample *, uint32_t row);

void dp_repeat_fini(struct dp_repeat *);
