/* SPDX-License-Identifier: MIT */
/*
 * tool/pgo/source_profile.h - samples by the place in the source: function, functions inlined into it, and line as
 * distance from the function's first line.
 */
#pragma once

#include "pprof/strings.h"
#include "tool/pgo/samples.h"

/* A place in a function: distance in lines, and the part of the line. */
struct dp_pgo_place {
    uint32_t line, discriminator;
};

struct dp_pgo_line {
    struct dp_pgo_place place;
    int64_t n;     /* samples */
    uint32_t next; /* 1 + the function's next one; 0: none */
};

/* A function, or one that was inlined into another at a place. */
struct dp_pgo_function {
    uint32_t name;                  /* in names */
    uint32_t parent;                /* 1 + its number; 0: not inlined */
    struct dp_pgo_place call;       /* in the parent */
    uint32_t first_line, last_line; /* 1 + number in lines; 0: none */
    uint32_t first_inlined, next;   /* 1 + number; 0: none */
    struct dp_pgo_place entry;
    bool has_entry;
};

/* Zero is empty. */
struct dp_pgo_profile {
    struct dp_strings names;
    DP_VEC(struct dp_pgo_function) functions;
    DP_VEC(struct dp_pgo_line) lines;
    uint32_t first; /* 1 + the first function that is not inlined */
    int64_t n_lost; /* samples whose line is not known */
};

/*
 * Takes the samples apart by the line tables of their file. Functions that have a sample get all their lines, most of
 * them with 0: so a compiler knows what was cold. 0 or -ENOMEM.
 */
int dp_pgo_profile_make(struct dp_pgo_profile *, const struct dp_pgo_samples *);
void dp_pgo_profile_fini(struct dp_pgo_profile *);
