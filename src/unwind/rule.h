/* SPDX-License-Identifier: MIT */
/*
 * unwind/rule.h - an unwind rule in 32 bits: how to get from a frame's (sp, fp) to its caller's (pc, sp, fp).
 *
 * Fields, from the low end: where the frame pointer was saved, in words below the CFA, 0 when it still holds the
 * caller's (slot); what the CFA counts from (kind); the CFA's offset from that, in words, signed.
 *
 *     x86_64     slot 8 bits, negated; kind 3; careful 1; the offset's high 4 bits and its low 16
 *                (the return address is at CFA - 8)
 *     aarch64    kind 3 bits; where the return address is 2; slot 13; offset 14
 *
 * A walk on x86_64 takes each field with one instruction, and one test for zero tells the rule that nearly all frames
 * have: SP and not `careful`. Careful is a rule whose offset is not positive or has high bits, or whose slot lies below
 * its base; of the others nothing that they lead to is below the base.
 */
#pragma once

#include "unwind/cfi.h"

enum dp_rule_kind {
    DP_RULE_SP,        /* CFA = sp + offset */
    DP_RULE_FP,        /* CFA = fp + offset */
    DP_RULE_NONE,      /* no unwind data: the walk ends here, cut */
    DP_RULE_END,       /* the outermost frame */
    DP_RULE_SIGNAL,    /* the caller was interrupted; a ucontext lies at sp + offset */
    DP_RULE_LIBUNWIND, /* there is unwind data, and it takes more than this to follow it */
    /* As SP and FP, in code with the mark of a signal frame that is not the kernel's: the caller's pc is exact. */
    DP_RULE_SP_EXACT,
    DP_RULE_FP_EXACT,
};

#if defined(__x86_64__)
enum { DP_RULE_KIND_SHIFT = 8, DP_RULE_SLOT_MAX = 128, DP_RULE_OFFSET_MAX = (1 << 19) - 1 };
#define DP_RULE_CAREFUL (1u << 11)
#elif defined(__aarch64__)
enum { DP_RULE_KIND_SHIFT = 0, DP_RULE_SLOT_MAX = (1 << 13) - 1, DP_RULE_OFFSET_MAX = (1 << 13) - 1 };
/* Where the return address is. BESIDE: in the word above the frame pointer's. ALONE: in the slot, no frame pointer
 * saved. */
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

/* A rule that is its kind alone. */
static inline uint32_t dp_rule_bare(enum dp_rule_kind kind)
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

/* Bytes from the slot up to the CFA; 0: the frame pointer was not saved. */
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
 * Of a word whose high half is a rule: one step from the word to each, for a walk waits for them. Whether it is of this
 * kind and not careful; the other two are for such rules only.
 */
static inline bool dp_rule_is_usual(uint64_t word, enum dp_rule_kind kind)
{
    return (word & (uint64_t)0xff00 << 32) == (uint64_t)dp_rule_bare(kind) << 32;
}

/* Words from the base up to the CFA, and from the CFA to the slot, which is not above it; 0: fp was not saved. */
static inline uintptr_t dp_rule_usual_offset(uint64_t word)
{
    return word >> 48;
}

static inline intptr_t dp_rule_usual_slot(uint64_t word)
{
    return (int8_t)(word >> 32);
}
#endif

/* Of the frame that the kernel puts on the stack for a signal; known by the code that returns from it. */
uint32_t dp_rule_signal(void);

/* The rule of a row; lookup_pc decides between the two halves of a PLT entry. */
uint32_t dp_rule_make(const struct dp_cfi_row *row, uintptr_t lookup_pc);
