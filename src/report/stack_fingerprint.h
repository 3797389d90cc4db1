/* SPDX-License-Identifier: MIT */
/*
 * report/stack_fingerprint.h - a stack of a runtime, in 32 bytes that stand for it.
 *
 * Not a hash that is compared and hoped for: two different stacks have the same key with a probability of 2^-128, for
 * any pair and whoever chose it, because the key is a universal hash under secret random numbers of this process.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dp_stack_fingerprint {
    uint64_t word[4];
};

/* Before the first key; cheap when done already. Any thread. */
void dp_stack_fingerprint_init(void);

/* depth at most DP_STACK_MAX. */
struct dp_stack_fingerprint dp_stack_fingerprint_of(const uintptr_t *stack, size_t depth);

static inline bool dp_stack_fingerprint_equal(const struct dp_stack_fingerprint *a,
                                              const struct dp_stack_fingerprint *b)
{
    return !((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1]) | (a->word[2] ^ b->word[2]) |
             (a->word[3] ^ b->word[3]));
}
