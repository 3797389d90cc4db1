/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/stack.h - a captured stack: frame ids, the leaf first, and their hash.
 */
#pragma once

#include "host/objects/frames.h"

#define DP_STACK_MAX 1024 /* the largest `depth` */

/* The hash is a polynomial over the frame ids: leaf frames can be added to a known part without reading that part. */
#define DP_STACK_BASE 0x9E3779B97F4A7C15u

/* The record that a stack was found to belong to; record 0: not looked up yet. */
struct dp_stack_known {
    uint64_t hash;
    uint64_t key; /* kind, heap and labels of the record */
    uint32_t record;
};

struct dp_stack {
    uint64_t hash;
    uint32_t depth;
    uint32_t cut;              /* not 0: frames are missing at the root end */
    const dp_frame_id *frames; /* valid until this thread captures again */
    /*
     * Belongs to the thread's stack cache and is kept while the stack stays the same; written by the code that interns
     * the stack. NULL: the stack is not cached.
     */
    struct dp_stack_known *known;
    uint32_t labels; /* the label set that a provider gave; 0: none did */
};

/* dp_hash_mix(sum of frame[i] * B^(depth-1-i) mod 2^64): the definition; incremental computations must give the same */
uint64_t dp_stack_hash(const dp_frame_id *frames, uint32_t depth);

/* The stack's n leafmost frames, as a stack that is cut there; n: less than its depth, or its depth. */
struct dp_stack dp_stack_shorten(const struct dp_stack *, uint32_t n);
