/* SPDX-License-Identifier: MIT */
/* tool/formats/stack_names.h - names of a model's frames, for formats without addresses. */
#pragma once

#include "tool/model/model.h"

#define DP_FORMATS_NAME_BYTES 32

/* The number of functions of a location, inlined ones counted; at least 1. */
static inline uint32_t dp_formats_n_names(const struct dp_model *m, uint32_t location)
{
    uint32_t n = m->locations.at[location].n_lines;
    return n ? n : 1;
}

/* The name of function i of a location, the innermost is 0; it may lie in room. */
const char *dp_formats_name(const struct dp_model *, uint32_t location, uint32_t i, char room[DP_FORMATS_NAME_BYTES]);
/* The line of that function; NULL if the location has none. */
const struct dp_model_line *dp_formats_line(const struct dp_model *, uint32_t location, uint32_t i);
