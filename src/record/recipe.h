/* SPDX-License-Identifier: MIT */
/*
 * record/recipe.h - how to step from a frame to its caller, by lookup address: one cache for all threads.
 */
#pragma once

#include "base/atomic.h"
#include "record/frames.h"

/*
 * Row r is words r and r + 1: a value, and the key xor the value, so that a pair torn by two writers misses. Rows
 * overlap: the number of a row is the low bits of its return address, two of which are never one byte apart, and an
 * index that needs no more than a mask is one that a walk does not wait for. All zero: empty.
 */
extern _Atomic uint64_t *dp_recipe_rows;
extern uint64_t dp_recipe_mask;

/* budget_bytes of dp_mem. with_rules: else rows carry frame ids only (unwind=fp). -ENOMEM. Context: init. */
int dp_recipe_init(size_t budget_bytes, bool with_rules);

/* Lookup addresses have 48 bits; the generation above them makes rows of before an unload unreachable. */
#define DP_RECIPE_KEY(lookup_pc, generation) ((uint64_t)(lookup_pc) ^ (uint64_t)(generation) << 48)

/*
 * A value is a rule (rule.h) in the high half and a frame id in the low. Makes one; 0 never: what cannot be said is
 * DP_RULE_NONE, and what has no room DP_FRAME_OVERFLOW.
 */
uint64_t dp_recipe_fill(uintptr_t lookup_pc, uint64_t key);

static inline uint32_t dp_recipe_rule(uint64_t value)
{
    return (uint32_t)(value >> 32);
}

static inline dp_frame_id dp_recipe_frame(uint64_t value)
{
    return (dp_frame_id)value;
}

/* What the row holds for the key; 0: nothing. rows and mask: dp_recipe_rows and dp_recipe_mask. */
static inline __attribute__((always_inline)) uint64_t dp_recipe_peek(_Atomic uint64_t *rows, uint64_t mask,
                                                                     uintptr_t lookup_pc, uint64_t key)
{
    uintptr_t index = (lookup_pc + 1) & mask, beside = index;
    __asm__(
        ""
        : "+r"(
            beside)); /* else the two share an address, which is then a step of its own before the load that counts */
    uint64_t value = dp_load_relaxed(&rows[index]);
    return __builtin_expect((dp_load_relaxed(&rows[beside + 1]) ^ value) == key, 1) ? value : 0;
}

static inline uint64_t dp_recipe_get(uintptr_t lookup_pc, uint64_t key)
{
    uint64_t value = dp_recipe_peek(dp_recipe_rows, dp_recipe_mask, lookup_pc, key);
    return value ? value : dp_recipe_fill(lookup_pc, key);
}
