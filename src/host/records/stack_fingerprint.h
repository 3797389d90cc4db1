/* SPDX-License-Identifier: MIT */
/*
 * host/records/stack_fingerprint.h - 32 bytes that identify a stack of a runtime.
 *
 * Two different stacks have the same fingerprint with a probability of only 2^-128, even if an attacker chose them,
 * because it is a universal hash under secret random numbers of this process. So fingerprints are compared instead of
 * stacks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dp_records_stack_fingerprint {
    uint64_t word[4];
};

/* To be called before the first fingerprint; cheap if already done. Any thread. */
void dp_records_stack_fingerprint_init(void);

/* depth at most DP_STACK_MAX. */
struct dp_records_stack_fingerprint dp_records_stack_fingerprint_of(const uintptr_t *stack, size_t depth);

static inline bool dp_records_stack_fingerprint_equal(const struct dp_records_stack_fingerprint *a,
                                                      const struct dp_records_stack_fingerprint *b)
{
    return !((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1]) | (a->word[2] ^ b->word[2]) |
             (a->word[3] ^ b->word[3]));
}
