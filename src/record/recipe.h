/* SPDX-License-Identifier: MIT */
/*
 * record/recipe.h - how to step from a frame to its caller, by lookup address: one cache for all threads.
 */
#pragma once

#include "base/atomic.h"
#include "record/frames.h"

/* A row is two words, the first its key xor the second, so that a pair torn by two writers misses. All zero: empty. */
struct dp_recipe_row {
    _Atomic uint64_t check, value;
};
extern struct dp_recipe_row *dp_recipe_rows;
extern uint64_t dp_recipe_mask;

/* budget_bytes of dp_mem. with_rules: else rows carry frame ids only (unwind=fp). -ENOMEM. Context: init. */
int dp_recipe_init(size_t budget_bytes, bool with_rules);

/* Lookup addresses have 48 bits; the generation above them makes rows of before an unload unreachable. */
#define DP_RECIPE_KEY(lookup_pc, generation) ((uint64_t)(lookup_pc) ^ (uint64_t)(generation) << 48)

/* The value of a row: a rule (rule.h) in the low half, a frame id in the high. 0: none could be made. */
uint64_t dp_recipe_fill(uintptr_t lookup_pc, uint64_t key);

static inline __attribute__((always_inline)) uint64_t dp_recipe_get(uintptr_t lookup_pc, uint64_t key)
{
    struct dp_recipe_row *row = &dp_recipe_rows[(lookup_pc ^ lookup_pc >> 14) & dp_recipe_mask];
    uint64_t value = dp_load_relaxed(&row->value);
    if (__builtin_expect((dp_load_relaxed(&row->check) ^ value) == key && value, 1))
        return value;
    return dp_recipe_fill(lookup_pc, key);
}

static inline dp_frame_id dp_recipe_frame(uint64_t value)
{
    return (dp_frame_id)(value >> 32);
}
