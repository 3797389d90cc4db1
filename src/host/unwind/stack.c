/* SPDX-License-Identifier: MIT */
/* host/unwind/stack.c - computes the hash of a stack, straight by its definition, and shortens a stack. */
#include "host/unwind/stack.h"

#include "base/hash.h"

uint64_t dp_stack_hash(const dp_frame_id *frames, uint32_t depth)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < depth; i++)
        sum = sum * DP_STACK_BASE + frames[i];
    return dp_hash_mix(sum);
}

struct dp_stack dp_stack_shorten(const struct dp_stack *stack, uint32_t n)
{
    return (struct dp_stack){.hash = dp_stack_hash(stack->frames, n),
                             .depth = n,
                             .cut = stack->cut || n < stack->depth,
                             .frames = stack->frames,
                             .labels = stack->labels};
}
