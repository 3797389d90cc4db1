/* SPDX-License-Identifier: MIT */
/*
 * formats/stacks.h - sums of values by stack. The stacks are a tree, so that one frame more or less costs the same at
 * any depth.
 */
#pragma once

#include "pprof/index.h"

/* A value whose rest is summed apart, so that the sum of many is exact to the unit. */
struct dp_formats_amount {
    int64_t whole;
    double rest;
};

struct dp_formats_node {
    uint32_t parent, frame;
    uint32_t row; /* + 1; 0: it has no sums */
};

/* Zero is empty, with n_types set. */
struct dp_formats_stacks {
    uint32_t n_types, n_rows;
    struct dp_index index;
    DP_VEC(struct dp_formats_node) nodes;
    DP_VEC(struct dp_formats_amount) sums; /* of each row, one for each type */
};

#define DP_FORMATS_ROOT UINT32_MAX    /* the parent of the first frame of a stack */
#define DP_FORMATS_NONE DP_INDEX_NONE /* no memory */

/* The stack with one frame more. */
uint32_t dp_formats_stacks_enter(struct dp_formats_stacks *, uint32_t node, uint32_t frame);
/* 0, -ENOMEM, or -ERANGE: the sum does not fit. */
int dp_formats_stacks_add(struct dp_formats_stacks *, uint32_t node, uint32_t type, struct dp_formats_amount);
/* Writes the sums of a row as whole numbers. -ERANGE: one does not fit. */
int dp_formats_stacks_values(const struct dp_formats_stacks *, uint32_t row, int64_t *values);
void dp_formats_stacks_fini(struct dp_formats_stacks *);
