/* SPDX-License-Identifier: MIT */
/*
 * unwind/unwind_cache.h - how to step from a frame to its caller, by lookup address: one cache for all threads.
 */
#pragma once

#include "base/atomic.h"
#include "objects/frames.h"

/*
 * A row is found by the address behind the one that is looked up: by a return address as it is, by an interrupted pc
 * plus one. Its number is that address's low bits but the lowest, since no two return addresses are one byte apart; as
 * the words' number in the array it takes no more than a mask, which is one that a walk does not wait for. Row r is
 * words r and r + 1, r even: a value, and the value xor the row's key, so that a pair torn by two writers misses. All
 * zero: empty.
 */
extern _Atomic uint64_t *dp_unwind_cache_rows;
extern uint64_t dp_unwind_cache_mask;

/* budget_bytes of dp_mem. with_rules: else rows carry frame ids only (unwind=fp). -ENOMEM. Context: init. */
int dp_unwind_cache_init(size_t budget_bytes, bool with_rules);

/* The part of a row's key that makes rows of before an unload unreachable. */
static inline uint64_t dp_unwind_cache_era(uint32_t generation)
{
    return ((uint64_t)generation + 1) * 0xD6E8FEB86659FD93u;
}

/* The factor is odd: within an era no two addresses have one key. No sum of neighbours, lest torn pairs agree. */
static inline uint64_t dp_unwind_cache_key(uintptr_t behind, uint64_t era)
{
    return behind * 0x9E3779B97F4A7C15u ^ era;
}

/*
 * A value is a rule (rule.h) in the high half and a frame id in the low. Makes one; 0 never: what cannot be said is
 * DP_RULE_NONE, and what has no room DP_FRAME_OVERFLOW.
 */
uint64_t dp_unwind_cache_fill(uintptr_t behind, uint32_t generation);

static inline uint32_t dp_unwind_cache_rule(uint64_t value)
{
    return (uint32_t)(value >> 32);
}

static inline dp_frame_id dp_unwind_cache_frame(uint64_t value)
{
    return (dp_frame_id)value;
}

/* Whether there is a row, and its value. rows, mask: dp_unwind_cache_rows and dp_unwind_cache_mask. */
static inline __attribute__((always_inline)) bool dp_unwind_cache_peek(_Atomic uint64_t *rows, uint64_t mask,
                                                                       uint64_t era, uintptr_t behind, uint64_t *value)
{
    uintptr_t index = behind & mask, beside = index;
    __asm__("" : "+r"(beside)); /* else the two share an address, a step of its own before the load that counts */
    *value = dp_load_relaxed(&rows[index]);
    return __builtin_expect((dp_load_relaxed(&rows[beside + 1]) ^ *value) == dp_unwind_cache_key(behind, era), 1);
}

static inline uint64_t dp_unwind_cache_get(uintptr_t behind, uint32_t generation)
{
    uint64_t value;
    if (dp_unwind_cache_peek(dp_unwind_cache_rows, dp_unwind_cache_mask, dp_unwind_cache_era(generation), behind,
                             &value) &&
        value)
        return value;
    return dp_unwind_cache_fill(behind, generation);
}
