/* SPDX-License-Identifier: MIT */
/*
 * unwind/stack.h - a captured stack: frame ids, the leaf first, and their hash.
 */
#pragma once

#include "objects/frames.h"

#define DP_STACK_MAX 1024 /* the largest `depth` */

/* The hash is polynomial over the frame ids, so that frames in front of a known part are added without reading that. */
#define DP_STACK_BASE 0x9E3779B97F4A7C15u

/* What is known of a stack since it was captured and looked up; record 0: nothing. */
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
    /* The thread's, where the stack is remembered: kept while the stack stays the same, for who interns it. Or NULL. */
    struct dp_stack_known *known;
};

/* dp_hash_mix(sum of frame[i] * B^(depth-1-i) mod 2^64); the definition that captures must agree with */
uint64_t dp_stack_hash(const dp_frame_id *frames, uint32_t depth);
