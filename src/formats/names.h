/* SPDX-License-Identifier: MIT */
/* formats/names.h - stacks of names, for formats without addresses: from a model, and into pprof. */
#pragma once

#include "model/model.h"
#include "pprof/encode.h"

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

struct dp_formats_frame {
    const char *name, *file; /* file NULL: not known */
    size_t n_name, n_file;
    int64_t line, column; /* 0: not known */
};

/* Makes locations of pprof from names. Zero is empty, with encode set. */
struct dp_formats_named {
    struct dp_encode *encode;
    struct dp_strings frames;   /* name, file, line and column */
    DP_VEC(uint64_t) locations; /* id by number of the frame */
    DP_VEC(uint64_t) stack;     /* the frames since begin */
};
void dp_formats_named_begin(struct dp_formats_named *);
/* Appends a frame to the stack, leaf first. 0 or -ENOMEM. */
int dp_formats_named_frame(struct dp_formats_named *, const struct dp_formats_frame *);
void dp_formats_named_fini(struct dp_formats_named *);
