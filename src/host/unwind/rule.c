/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/rule.c - packs a row of the unwind table into a 32-bit rule, if the row has one of the forms that
 * compilers write.
 *
 * One DWARF expression is recognized, by its bytes: the one that linkers write for a PLT entry. It means CFA = sp + 8,
 * or sp + 16 from byte N of the 16 on, where the entry has pushed its index.
 *
 * The mark of a signal frame means only that the caller's pc is exact, not a return address. Language runtimes use the
 * mark for stack switches too, with ordinary unwind data, which is followed. The kernel's own signal frame is
 * recognized by its code (unwind_cache.c); there the kernel's layout says where the registers are.
 */
#include "host/unwind/rule.h"

#include <string.h>

static uint32_t pack(enum dp_rule_kind kind, uint64_t slot_bytes, int64_t offset_bytes)
{
    int64_t offset = offset_bytes / 8;
    uint64_t slot = slot_bytes / 8;
    if (offset_bytes % 8 || slot_bytes % 8 || slot > DP_RULE_SLOT_MAX || offset > DP_RULE_OFFSET_MAX ||
        offset < -DP_RULE_OFFSET_MAX)
        return dp_rule_of_kind(DP_RULE_LIBUNWIND);
#if defined(__x86_64__)
    bool careful = offset < 1 || offset > UINT16_MAX || (int64_t)slot > offset;
    return dp_rule_of_kind(kind) | (uint8_t)-slot | (careful ? DP_RULE_CAREFUL : 0) |
           ((uint32_t)offset >> 16 & 15) << 12 | (uint32_t)offset << 16;
#else
    return dp_rule_of_kind(kind) | (uint32_t)slot << 5 | (uint32_t)offset << 18;
#endif
}

/* The kernel's struct rt_sigframe begins at sp in the trampoline. x86_64: ucontext; aarch64: siginfo, then ucontext. */
#if defined(__x86_64__)
enum { UCONTEXT_OFFSET = 0 };
#elif defined(__aarch64__)
enum { UCONTEXT_OFFSET = 128 };
#endif

uint32_t dp_rule_signal(void)
{
    return pack(DP_RULE_SIGNAL, 0, UCONTEXT_OFFSET);
}

uint32_t dp_rule_none(void)
{
#if defined(__x86_64__)
    return pack(DP_RULE_NONE, 16, 16);
#else
    return pack(DP_RULE_NONE, 16, 16) | DP_RULE_RA_BESIDE << 3;
#endif
}

#if defined(__x86_64__)

/* breg7 8, breg16 0, lit15, and, litN, ge, lit3, shl, plus */
static int plt_offset(const struct dp_cfi_row *row, uintptr_t pc)
{
    static const uint8_t before[] = {0x77, 8, 0x80, 0, 0x3f, 0x1a}, after[] = {0x2a, 0x33, 0x24, 0x22};
    const uint8_t *e = row->expression;
    if (row->expression_bytes != 11 || memcmp(e, before, 6) || (e[6] & 0xf0) != 0x30 || memcmp(e + 7, after, 4))
        return 0;
    return (pc & 15) >= (e[6] & 15u) ? 16 : 8;
}

/* The rule without regard to the mark of a signal frame. */
static uint32_t unmarked(const struct dp_cfi_row *row, uintptr_t lookup_pc)
{
    if (row->ra.how == DP_SAVED_UNDEFINED)
        return dp_rule_of_kind(DP_RULE_END);
    if (row->ra.how != DP_SAVED_OFFSET || row->ra.offset != -8 || row->sp.how != DP_SAVED_SAME)
        return dp_rule_of_kind(DP_RULE_LIBUNWIND);
    uint64_t slot = 0;
    if (row->fp.how == DP_SAVED_OFFSET && row->fp.offset < 0)
        slot = -(uint64_t)row->fp.offset;
    else if (row->fp.how != DP_SAVED_SAME)
        return dp_rule_of_kind(DP_RULE_LIBUNWIND);
    if (row->cfa == DP_CFA_EXPRESSION) {
        int offset = plt_offset(row, lookup_pc);
        return offset ? pack(DP_RULE_SP, slot, offset) : dp_rule_of_kind(DP_RULE_LIBUNWIND);
    }
    if (row->reg == DP_REG_SP)
        return pack(DP_RULE_SP, slot, row->offset);
    if (row->reg == DP_REG_FP)
        return pack(DP_RULE_FP, slot, row->offset);
    return dp_rule_of_kind(DP_RULE_LIBUNWIND);
}

#elif defined(__aarch64__)

static uint32_t unmarked(const struct dp_cfi_row *row, uintptr_t lookup_pc)
{
    if (row->ra.how == DP_SAVED_UNDEFINED)
        return dp_rule_of_kind(DP_RULE_END);
    if (row->cfa != DP_CFA_REGISTER || row->sp.how != DP_SAVED_SAME)
        return dp_rule_of_kind(DP_RULE_LIBUNWIND);
    uint64_t slot = 0;
    uint32_t ra = DP_RULE_RA_LINK;
    if (row->fp.how == DP_SAVED_OFFSET && row->fp.offset < 0) {
        slot = -(uint64_t)row->fp.offset;
        if (row->ra.how != DP_SAVED_OFFSET || row->ra.offset != row->fp.offset + 8)
            return dp_rule_of_kind(DP_RULE_LIBUNWIND);
        ra = DP_RULE_RA_BESIDE;
    } else if (row->fp.how != DP_SAVED_SAME) {
        return dp_rule_of_kind(DP_RULE_LIBUNWIND);
    } else if (row->ra.how == DP_SAVED_OFFSET && row->ra.offset < 0) {
        slot = -(uint64_t)row->ra.offset;
        ra = DP_RULE_RA_ALONE;
    } else if (row->ra.how != DP_SAVED_SAME) {
        return dp_rule_of_kind(DP_RULE_LIBUNWIND);
    }
    if (row->reg == DP_REG_SP)
        return pack(DP_RULE_SP, slot, row->offset) | ra << 3;
    if (row->reg == DP_REG_FP)
        return pack(DP_RULE_FP, slot, row->offset) | ra << 3;
    return dp_rule_of_kind(DP_RULE_LIBUNWIND);
}

#endif

uint32_t dp_rule_make(const struct dp_cfi_row *row, uintptr_t lookup_pc)
{
    uint32_t rule = unmarked(row, lookup_pc), kind = dp_rule_kind(rule);
    if (row->signal && kind == DP_RULE_SP)
        return rule ^ dp_rule_of_kind(DP_RULE_SP ^ DP_RULE_SP_EXACT);
    if (row->signal && kind == DP_RULE_FP)
        return rule ^ dp_rule_of_kind(DP_RULE_FP ^ DP_RULE_FP_EXACT);
    return rule;
}
