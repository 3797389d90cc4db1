/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/unwind_cache.h - caches, by lookup address, the rule to step from a frame to its caller. All threads
 * share it.
 */
#pragma once

#include "base/atomic.h"
#include "host/objects/frames.h"

/*
 * A row is found by the lookup address + 1, called `behind`: a return address as it is, or an interrupted pc plus one.
 * The index of its first word is that address's low bits without the lowest (no two return addresses are one byte
 * apart), so one mask gives the index. Row r is words r and r + 1, r even: a value, and the value xor the row's key. A
 * pair torn by two writers does not match, and counts as a miss. All zero: empty.
 */
extern _Atomic uint64_t *dp_unwind_cache_rows;
extern _Atomic uint64_t dp_unwind_cache_mask; /* relaxed: grows; a row is found only by the mask it was stored with */

/* budget_bytes of dp_mem. with_rules false: rows hold frame ids only (unwind=fp). -ENOMEM. Context: init. */
int dp_unwind_cache_init(size_t budget_bytes, bool with_rules);

/* The part of a row's key that changes with each unload, so that older rows do not match any more. */
static inline uint64_t dp_unwind_cache_generation_key(uint32_t generation)
{
    return ((uint64_t)generation + 1) * 0xD6E8FEB86659FD93u;
}

/*
 * The factor is odd: within a generation no two addresses have the same key. The product keeps keys of neighbours
 * unrelated, or torn pairs could match.
 */
static inline uint64_t dp_unwind_cache_key(uintptr_t behind, uint64_t generation_key)
{
    return behind * 0x9E3779B97F4A7C15u ^ generation_key;
}

/*
 * Computes and stores a value: a rule (rule.h) in the high half, a frame id in the low half. Never 0: without a rule
 * the value has DP_RULE_NONE, without room for the frame DP_FRAME_OVERFLOW.
 */
uint64_t dp_unwind_cache_fill(uintptr_t behind, uint32_t generation);

/* The value of an interrupted pc, with the frame of that pc. */
uint64_t dp_unwind_cache_exact(uintptr_t pc, uint32_t generation);

/*
 * The same for an interrupted pc, but the frame is that of its function's beginning: so that a thread that is
 * interrupted anywhere in a function gives one frame and not one for each instruction. Code of an unknown function is
 * divided into pieces of 16 bytes.
 */
uint64_t dp_unwind_cache_interrupted(uintptr_t pc, uint32_t generation);

/*
 * The same for code in which another thread stands: a return address, or with `exact` the place where it is. A new
 * value is made while no unload can begin, and only if is_there still says then that the thread stands there. 0: it
 * cannot be made now. Context: not a hook.
 */
uint64_t dp_unwind_cache_of_sibling(uintptr_t pc, bool exact, uint32_t generation, bool (*is_there)(void *ctx),
                                    void *ctx);

/*
 * How far the frame pointer of a function in which another thread stands lies above its stack pointer, as its code
 * says. False: that is not known. Context: not a hook.
 */
bool dp_unwind_cache_depth_of_sibling(uintptr_t pc, bool exact, bool (*is_there)(void *ctx), void *ctx,
                                      uintptr_t *depth_bytes);

static inline uint32_t dp_unwind_cache_rule(uint64_t value)
{
    return (uint32_t)(value >> 32);
}

static inline dp_frame_id dp_unwind_cache_frame(uint64_t value)
{
    return (dp_frame_id)value;
}

/* Whether there is a row, and its value. rows, mask: the values of dp_unwind_cache_rows and dp_unwind_cache_mask. */
static inline __attribute__((always_inline)) bool
dp_unwind_cache_peek(_Atomic uint64_t *rows, uint64_t mask, uint64_t generation_key, uintptr_t behind, uint64_t *value)
{
    uintptr_t index = behind & mask, beside = index;
    /* keeps the compiler from computing one shared address, which would delay the first load */
    __asm__("" : "+r"(beside));
    *value = dp_load_relaxed(&rows[index]);
    return __builtin_expect(
        (dp_load_relaxed(&rows[beside + 1]) ^ *value) == dp_unwind_cache_key(behind, generation_key), 1);
}

static inline uint64_t dp_unwind_cache_get(uintptr_t behind, uint32_t generation)
{
    uint64_t value;
    if (dp_unwind_cache_peek(dp_unwind_cache_rows, dp_load_relaxed(&dp_unwind_cache_mask),
                             dp_unwind_cache_generation_key(generation), behind, &value) &&
        value)
        return value;
    return dp_unwind_cache_fill(behind, generation);
}
