/* SPDX-License-Identifier: MIT */
/*
 * record/rule.h - an unwind rule in 32 bits: how to get from a frame's (sp, fp) to its caller's (pc, sp, fp).
 *
 * From the low end: kind 3 bits; on aarch64 where the return address is, 2 bits; the frame pointer's slot, in words
 * below the CFA, 0 when it still holds the caller's; and the CFA's offset from its base, in words, signed.
 *
 *     x86_64     slot 7 bits, 3 bits unused, offset 19 bits; the return address is at CFA - 8
 *     aarch64    slot 13 bits, offset 14 bits
 */
#pragma once

#include "record/cfi.h"

enum dp_rule_kind {
    DP_RULE_NONE,    /* no unwind data: the walk ends here, cut */
    DP_RULE_SP,      /* CFA = sp + offset */
    DP_RULE_FP,      /* CFA = fp + offset */
    DP_RULE_END,     /* the outermost frame */
    DP_RULE_SIGNAL,  /* the caller was interrupted; a ucontext lies at sp + offset */
    DP_RULE_FOREIGN, /* there is unwind data, and it takes more than this to follow it */
};

#if defined(__x86_64__)
enum { DP_RULE_OFFSET_SHIFT = 13, DP_RULE_SLOT_SHIFT = 3, DP_RULE_SLOT_BITS = 7 };
#elif defined(__aarch64__)
enum { DP_RULE_OFFSET_SHIFT = 18, DP_RULE_SLOT_SHIFT = 5, DP_RULE_SLOT_BITS = 13 };
/* Where the return address is. BESIDE: in the word above the frame pointer's. ALONE: in the slot, no frame pointer
 * saved. */
enum { DP_RULE_RA_LINK, DP_RULE_RA_BESIDE, DP_RULE_RA_ALONE };
#endif

static inline enum dp_rule_kind dp_rule_kind(uint32_t rule)
{
    return (enum dp_rule_kind)(rule & 7);
}

/* Bytes from the base to the CFA (SP, FP) or to the ucontext (SIGNAL). */
static inline intptr_t dp_rule_offset(uint32_t rule)
{
    return (intptr_t)((int32_t)rule >> DP_RULE_OFFSET_SHIFT) * 8;
}

/* Bytes from the slot up to the CFA; 0: the frame pointer was not saved. */
static inline uintptr_t dp_rule_slot(uint32_t rule)
{
    return (uintptr_t)(rule >> DP_RULE_SLOT_SHIFT & ((1u << DP_RULE_SLOT_BITS) - 1)) * 8;
}

/* A signal frame's; found by its unwind data, or by its code where it has none. */
uint32_t dp_rule_signal(void);

/* The rule of a row; lookup_pc decides between the two halves of a PLT entry. */
uint32_t dp_rule_make(const struct dp_cfi_row *row, uintptr_t lookup_pc);
