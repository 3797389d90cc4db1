/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/bare_code_arm.c - what instructions of aarch64 do to the stack pointer, the frame pointer (x29) and the
 * link register (x30).
 *
 * A register that is loaded from where the path stored it has, at the begin, still the caller's value. Of other loads
 * of a register the last one counts: an earlier one was of something else that was kept there. Each instruction has 4
 * bytes; those that write none of the three registers are passed.
 */
#include "host/unwind/bare_code_path.h"

#include <string.h>

#if defined(__aarch64__)

enum { FP = 29, LR = 30, SP = 31, INSTRUCTION_BYTES = 4 };

/* n bits from a bit on. */
static uint32_t field(uint32_t code, unsigned from, unsigned n_bits)
{
    return code >> from & ((1u << n_bits) - 1);
}

static int64_t signed_field(uint32_t code, unsigned from, unsigned n_bits)
{
    return (int64_t)((uint64_t)field(code, from, n_bits) << (64 - n_bits)) >> (64 - n_bits);
}

/* Loads a register from the stack. */
static enum dp_bare_code_next load(struct dp_bare_code_place *at, uint32_t reg, int64_t from)
{
    if (reg == FP) {
        at->knows_fp = false;
        if (!at->kept_fp || from != at->fp_place) {
            if (!at->by_fp && from < 0)
                return DP_BARE_CODE_ENDS;
            at->has_fp = true;
            at->saved_fp = from;
        }
    }
    if (reg == LR) {
        at->lost_link = false;
        if (!at->kept_ra || from != at->ra_place) {
            if (!at->by_fp && from < 0)
                return DP_BARE_CODE_ENDS;
            at->has_ra = true;
            at->saved_ra = from;
        }
    }
    return DP_BARE_CODE_GOES_ON;
}

/* Stores a register on the stack. */
static enum dp_bare_code_next store(struct dp_bare_code_place *at, uint32_t reg, int64_t to)
{
    if (reg == FP) {
        at->kept_fp = true;
        at->fp_place = to;
    }
    if (reg == LR) {
        if (at->lost_link) /* the begin of another function, behind the call of one that never returns */
            return DP_BARE_CODE_ENDS;
        at->kept_ra = true;
        at->ra_place = to;
    }
    return DP_BARE_CODE_GOES_ON;
}

static enum dp_bare_code_next move_register(struct dp_bare_code_place *at, uint32_t reg, int64_t place, bool is_load)
{
    return is_load ? load(at, reg, place) : store(at, reg, place);
}

/* A register that is loaded from elsewhere: nothing is known of it. */
static enum dp_bare_code_next load_other(struct dp_bare_code_place *at, uint32_t reg)
{
    if (reg == LR)
        at->lost_link = true;
    return reg == FP ? DP_BARE_CODE_ENDS : DP_BARE_CODE_GOES_ON;
}

/* add and sub of a constant: sp, or a frame pointer that is made from it. */
static enum dp_bare_code_next add_constant(struct dp_bare_code_place *at, uint32_t code)
{
    uint32_t to = field(code, 0, 5), from = field(code, 5, 5);
    int64_t n = (int64_t)field(code, 10, 12) << (field(code, 22, 1) ? 12 : 0);
    bool sets_flags = field(code, 29, 1); /* then 31 is no register, as in cmp */
    if (sets_flags || (to != SP && to != FP && to != LR))
        return DP_BARE_CODE_GOES_ON;
    if (!field(code, 31, 1) || to == LR)
        return DP_BARE_CODE_ENDS;
    n = field(code, 30, 1) ? -n : n;
    if (to == FP) {
        at->knows_fp = from == SP;
        at->fp_up = at->up + n;
    } else if (from == SP) {
        at->up += n;
    } else if (from == FP && at->knows_fp) {
        at->up = at->fp_up + n;
    } else if (from == FP && !at->by_fp && !at->has_fp && !at->has_ra) {
        at->by_fp = true;
        at->up = n;
    } else {
        return DP_BARE_CODE_ENDS;
    }
    return DP_BARE_CODE_GOES_ON;
}

/* Loads and stores of two registers: behind, at or before the address that is added to (mode 1, 2, 3). */
static enum dp_bare_code_next move_pair(struct dp_bare_code_place *at, uint32_t code)
{
    uint32_t first = field(code, 0, 5), base = field(code, 5, 5), second = field(code, 10, 5);
    uint32_t mode = field(code, 23, 3), size = field(code, 30, 2);
    bool is_vector = field(code, 26, 1), is_load = field(code, 22, 1);
    int64_t n = signed_field(code, 15, 7) * (is_vector ? 4 << size : size == 2 ? 8 : 4);
    enum dp_bare_code_next next = DP_BARE_CODE_GOES_ON;
    if (base == SP && !is_vector && size == 2) {
        int64_t place = at->up + (mode == 1 ? 0 : n);
        next = move_register(at, first, place, is_load);
        next = next == DP_BARE_CODE_GOES_ON ? move_register(at, second, place + 8, is_load) : next;
    } else if (!is_vector && is_load) {
        next = load_other(at, first);
        next = next == DP_BARE_CODE_GOES_ON ? load_other(at, second) : next;
    }
    if (base == SP && (mode == 1 || mode == 3))
        at->up += n;
    return next;
}

/* Loads and stores of one register. */
static enum dp_bare_code_next move_one(struct dp_bare_code_place *at, uint32_t code)
{
    uint32_t reg = field(code, 0, 5), base = field(code, 5, 5);
    bool is_register = !field(code, 26, 1), is_far = field(code, 24, 1), by_register = !is_far && field(code, 21, 1);
    uint32_t kind = field(code, 22, 2);
    bool is_load = is_register && kind && !(kind == 2 && field(code, 30, 2) == 3); /* that would be a prefetch */
    bool adds = !is_far && !by_register && field(code, 10, 1), is_behind = adds && !field(code, 11, 1);
    int64_t n = is_far ? (int64_t)field(code, 10, 12) << field(code, 30, 2) : signed_field(code, 12, 9);
    enum dp_bare_code_next next = DP_BARE_CODE_GOES_ON;
    if (is_register && base == SP && !by_register && field(code, 30, 2) == 3)
        next = move_register(at, reg, at->up + (is_behind ? 0 : n), is_load);
    else if (is_load)
        next = load_other(at, reg);
    if (base == SP && adds)
        at->up += n;
    return next;
}

static enum dp_bare_code_next call(struct dp_bare_code_path *path)
{
    path->behind_call = path->at.lost_link = true;
    path->at.number_in = path->at.sum_in = 0;
    return DP_BARE_CODE_GOES_ON;
}

/*
 * Whether a jump through this register is a last call by the instruction before it: add x16, x16, N in an entry of a
 * PLT or a veneer, mov x16, xN where the compiler keeps landing pads apart. A switch needs neither.
 */
static bool is_last_call(struct dp_bare_code_path *path, uint32_t reg)
{
    enum { IP0 = 16, IP1 = 17 };
    uint32_t code;
    uintptr_t at = path->at.pc - 2 * INSTRUCTION_BYTES;
    if ((reg != IP0 && reg != IP1) || !dp_bare_code_can_read(path, at, INSTRUCTION_BYTES))
        return false;
    memcpy(&code, (const void *)at, sizeof code);
    return (code & 0xffc003ff) == 0x91000210 || (code & 0xffe0ffff) == (0xaa0003e0 | reg);
}

static enum dp_bare_code_next jump_through_register(struct dp_bare_code_path *path, uint32_t code)
{
    const struct dp_bare_code_place *at = &path->at;
    bool is_link = field(code, 5, 5) == LR, may_return = !at->lost_link;
    switch (field(code, 21, 4)) {
    case 0: /* br, and braa with a modifier */
    case 8:
        if ((at->has_ra || at->by_fp || at->up > 0 || is_last_call(path, field(code, 5, 5))) && may_return)
            return DP_BARE_CODE_RETURNS_HERE; /* the last call: it returns to the caller */
        return at->sum_in == field(code, 5, 5) && at->sum_in ? dp_bare_code_put_off(path) : DP_BARE_CODE_ENDS;
    case 1: /* blr */
    case 9:
        return call(path);
    case 2: /* ret, and retaa, retab, whose register is 31 */
        return may_return && (is_link || field(code, 11, 1)) ? DP_BARE_CODE_RETURNS_HERE : DP_BARE_CODE_ENDS;
    default:
        return DP_BARE_CODE_ENDS;
    }
}

/* Jumps and calls by a distance; false: it is none. */
static bool jump_near(struct dp_bare_code_path *path, uint32_t code, uintptr_t pc, enum dp_bare_code_next *next)
{
    uintptr_t target;
    if ((code & 0x7c000000) == 0x14000000) { /* b, bl */
        target = pc + (uintptr_t)(signed_field(code, 0, 26) * 4);
        if (code >> 31)
            *next = dp_bare_code_never_returns(path->code, target) ? DP_BARE_CODE_ENDS : call(path);
        else
            *next = dp_bare_code_jump(path, target);
    } else if ((code & 0xff000000) == 0x54000000 || (code & 0x7e000000) == 0x34000000) { /* b.cond, cbz, cbnz */
        *next = dp_bare_code_branch(path, pc + (uintptr_t)(signed_field(code, 5, 19) * 4));
    } else if ((code & 0x7e000000) == 0x36000000) { /* tbz, tbnz */
        *next = dp_bare_code_branch(path, pc + (uintptr_t)(signed_field(code, 5, 14) * 4));
    } else {
        return false;
    }
    return true;
}

/* add and sub of a register whose number is known: sp, in functions with more on the stack than a constant can say. */
static enum dp_bare_code_next add_number(struct dp_bare_code_place *at, uint32_t code)
{
    bool sets_flags = field(code, 29, 1), is_plain = field(code, 10, 3) == 0 && field(code, 13, 2) == 3;
    if (sets_flags || field(code, 0, 5) != SP)
        return DP_BARE_CODE_GOES_ON;
    if (!field(code, 31, 1) || !is_plain || field(code, 5, 5) != SP || !at->number_in ||
        field(code, 16, 5) != at->number_in)
        return DP_BARE_CODE_ENDS;
    at->up += field(code, 30, 1) ? -at->number : at->number;
    return DP_BARE_CODE_GOES_ON;
}

/*
 * Notes that a register is given a number (movn, movz, movk) or the sum of two registers. Forgets it when the register
 * is written otherwise.
 */
static void note_register(struct dp_bare_code_place *at, uint32_t code)
{
    uint32_t to = field(code, 0, 5), shift = field(code, 21, 2) * 16, operation = field(code, 29, 2);
    uint64_t bits = (uint64_t)field(code, 5, 16) << shift;
    bool is_number = (code & 0x9f800000) == 0x92800000 && operation != 1, is_pair = (code & 0x3a000000) == 0x28000000;
    bool is_sum = (code & 0xff200000) == 0x8b000000 || (code & 0xffe00000) == 0x8b200000;
    if (is_number && operation == 3 && to == at->number_in) {
        at->number = (int64_t)(((uint64_t)at->number & ~(UINT64_C(0xffff) << shift)) | bits);
    } else if (is_number && operation != 3 && to < FP) {
        at->number_in = to;
        at->number = (int64_t)(operation ? bits : ~bits);
    } else if (at->number_in == to || (is_pair && at->number_in == field(code, 10, 5))) {
        at->number_in = 0;
    }
    if (is_sum || at->sum_in == to)
        at->sum_in = is_sum && to != SP ? to : 0;
}

enum dp_bare_code_next dp_bare_code_step(struct dp_bare_code_path *path)
{
    struct dp_bare_code_place *at = &path->at;
    uint32_t code;
    uintptr_t pc = at->pc;
    if (pc % INSTRUCTION_BYTES || !dp_bare_code_can_read(path, pc, INSTRUCTION_BYTES))
        return DP_BARE_CODE_ENDS;
    memcpy(&code, (const void *)pc, sizeof code);
    bool was_call = path->behind_call;
    path->behind_call = false;
    if (was_call && code == 0xd503201f) /* nop */
        return dp_bare_code_put_off(path);
    at->pc = pc + INSTRUCTION_BYTES;
    enum dp_bare_code_next next;
    if (jump_near(path, code, pc, &next))
        return next;
    note_register(at, code);
    if ((code & 0xfe000000) == 0xd6000000)
        return jump_through_register(path, code);
    if ((code & 0x1f800000) == 0x11000000)
        return add_constant(at, code);
    if ((code & 0x1fe00000) == 0x0b200000)
        return add_number(at, code);
    if ((code & 0x3a000000) == 0x28000000)
        return move_pair(at, code);
    if ((code & 0x3a000000) == 0x38000000)
        return move_one(at, code);
    uint32_t to = field(code, 0, 5);
    bool is_logical = (code & 0x1f800000) == 0x12000000;
    if (is_logical && field(code, 29, 2) != 3 && to == SP)
        return DP_BARE_CODE_ENDS;
    if ((code & 0xffe0ffe0) == 0xaa0003e0 && (to == FP || to == LR)) /* mov */
        return DP_BARE_CODE_ENDS;
    /* udf, hlt, brk */
    return code >> 16 == 0 || (code & 0xffa00000) == 0xd4200000 || (code & 0xffe00000) == 0xd4400000
               ? DP_BARE_CODE_ENDS
               : DP_BARE_CODE_GOES_ON;
}

/* A caller has called, so its return address is in its frame. */
bool dp_bare_code_is_callers(const struct dp_bare_code_place *at)
{
    return at->has_ra && at->saved_ra < at->up;
}

void dp_bare_code_fill(const struct dp_bare_code_place *at, struct dp_cfi_row *row)
{
    row->cfa = DP_CFA_REGISTER;
    row->reg = at->by_fp ? DP_REG_FP : DP_REG_SP;
    row->offset = at->up;
    row->sp = (struct dp_cfi_where){.how = DP_SAVED_SAME};
    row->ra = (struct dp_cfi_where){.how = at->has_ra ? DP_SAVED_OFFSET : DP_SAVED_SAME,
                                    .offset = at->has_ra ? at->saved_ra - at->up : 0};
    row->fp = (struct dp_cfi_where){.how = at->has_fp ? DP_SAVED_OFFSET : DP_SAVED_SAME,
                                    .offset = at->has_fp ? at->saved_fp - at->up : 0};
}

#endif
