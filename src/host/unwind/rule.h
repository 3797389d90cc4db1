/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/rule.h - an unwind rule, packed into 32 bits: how to compute the caller's pc, sp and fp from a frame's sp
 * and fp.
 *
 *     kind      how the CFA (DWARF's canonical frame address: the caller's sp) is found, mostly from a base, sp or fp
 *     offset    from the base to the CFA, in words, signed
 *     slot      where the frame saved the caller's fp, in words below the CFA; 0: it did not, the register has it
 *
 * The fields, from the lowest bit up:
 *
 *     x86_64     slot 8 bits, negated; kind 3; careful 1; the offset's high 4 bits, then its low 16
 *                (the return address is at CFA - 8)
 *     aarch64    kind 3 bits; ra 2 (enum dp_rule_ra); slot 13; offset 14
 *
 * On x86_64 the walk extracts each field with one instruction, and one test for zero recognizes the rule of nearly all
 * frames: kind SP, not careful. A rule is careful if its offset is not positive or needs the high bits, or if its slot
 * lies below its base. So a rule that is not careful leads to no address below the base.
 */
#pragma once

#include "host/unwind/cfi.h"

#include <stdbool.h>

enum dp_rule_kind {
    DP_RULE_SP, /* CFA = sp + offset */
    DP_RULE_FP, /* CFA = fp + offset */
    /* No unwind data. The walk follows fp if it leads to code with unwind data; else the stack is cut. */
    DP_RULE_NONE,
    DP_RULE_END,       /* the outermost frame */
    DP_RULE_SIGNAL,    /* the caller was interrupted by a signal; its ucontext lies at sp + offset */
    DP_RULE_LIBUNWIND, /* the unwind data cannot be expressed as a rule: libunwind is asked */
    /* As SP and FP, in a frame with the mark of a signal frame (rule.c): the caller's pc is no return address. */
    DP_RULE_SP_EXACT,
    DP_RULE_FP_EXACT,
};

#if defined(__x86_64__)
enum { DP_RULE_KIND_SHIFT = 8, DP_RULE_SLOT_MAX = 128, DP_RULE_OFFSET_MAX = (1 << 19) - 1 };
#define DP_RULE_CAREFUL (1u << 11)
#elif defined(__aarch64__)
enum { DP_RULE_KIND_SHIFT = 0, DP_RULE_SLOT_MAX = (1 << 13) - 1, DP_RULE_OFFSET_MAX = (1 << 13) - 1 };
/*
 * Where the return address is. LINK: in the link register. BESIDE: in the word above the saved fp. ALONE: in the slot,
 * and fp is not saved.
 */
enum dp_rule_ra { DP_RULE_RA_LINK, DP_RULE_RA_BESIDE, DP_RULE_RA_ALONE };

static inline enum dp_rule_ra dp_rule_ra(uint32_t rule)
{
    return (enum dp_rule_ra)(rule >> 3 & 3);
}
#endif

static inline enum dp_rule_kind dp_rule_kind(uint32_t rule)
{
    return (enum dp_rule_kind)(rule >> DP_RULE_KIND_SHIFT & 7);
}

/* A rule with a kind and nothing else. */
static inline uint32_t dp_rule_of_kind(enum dp_rule_kind kind)
{
    return (uint32_t)kind << DP_RULE_KIND_SHIFT;
}

/* Bytes from the base to the CFA (SP, FP) or to the ucontext (SIGNAL). */
static inline intptr_t dp_rule_offset(uint32_t rule)
{
#if defined(__x86_64__)
    return (intptr_t)((int32_t)((rule & 0xf000) << 16) >> 12 | (int32_t)(rule >> 16)) * 8;
#else
    return (intptr_t)((int32_t)rule >> 18) * 8;
#endif
}

/* Bytes from the slot up to the CFA; 0: fp was not saved. */
static inline uintptr_t dp_rule_slot(uint32_t rule)
{
#if defined(__x86_64__)
    return (uintptr_t) - (intptr_t)(int8_t)rule * 8;
#else
    return (uintptr_t)(rule >> 5 & DP_RULE_SLOT_MAX) * 8;
#endif
}

#if defined(__x86_64__)
/*
 * The next three read a rule in the high half of a word, with one instruction each, because each step of the walk waits
 * for the result. is_usual: whether the rule has this kind and is not careful. The other two are valid only then.
 */
static inline bool dp_rule_is_usual(uint64_t word, enum dp_rule_kind kind)
{
    return (word & (uint64_t)0xff00 << 32) == (uint64_t)dp_rule_of_kind(kind) << 32;
}

/* Words from the base to the CFA; and from the CFA to the slot, a negative number, or 0: fp was not saved. */
static inline uintptr_t dp_rule_usual_offset(uint64_t word)
{
    return word >> 48;
}

static inline intptr_t dp_rule_usual_slot(uint64_t word)
{
    return (int8_t)(word >> 32);
}
#endif

/*
 * The rule of the frame that the kernel puts on the stack for a signal. The walk knows it by its pc, which is in the
 * code that returns from the signal.
 */
uint32_t dp_rule_signal(void);

/*
 * The rule of code without unwind data: NONE, with the offset and the slot of a function that saves fp and sets it to
 * its frame.
 */
uint32_t dp_rule_none(void);

/*
 * The rule of JIT-compiled code that runs in the frame of its interpreter (walk.c): NONE, with neither.
 */
static inline uint32_t dp_rule_hosted(void)
{
    return dp_rule_of_kind(DP_RULE_NONE);
}

/* Packs a row of the unwind table; lookup_pc decides between the two halves of a PLT entry. */
uint32_t dp_rule_make(const struct dp_cfi_row *row, uintptr_t lookup_pc);
