/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/bare_code_arm.c - what instructions of aarch64 do to the stack pointer, the frame pointer (x29) and the
 * link register (x30).
 *
 * A register that is loaded from below the stack pointer of the begin was stored there later: the register still has
 * the caller's value. Only the first load of a register counts. A later one belongs to another function, to which this
 * one jumps at its end. Each instruction has 4 bytes; those that write none of the three registers are passed.
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
static void load(struct dp_bare_code_place *at, uint32_t reg, int64_t from)
{
    if (reg == FP) {
        at->knows_fp = false;
        if (!at->has_fp && (at->by_fp || from >= 0)) {
            at->has_fp = true;
            at->saved_fp = from;
        }
    }
    if (reg == LR && !at->has_ra && (at->by_fp || from >= 0)) {
        at->has_ra = true;
        at->saved_ra = from;
    }
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
    if (base == SP && !is_vector && is_load && size == 2) {
        int64_t from = at->up + (mode == 1 ? 0 : n);
        load(at, first, from);
        load(at, second, from + 8);
    } else if (!is_vector && is_load && (first == FP || first == LR || second == FP || second == LR)) {
        return DP_BARE_CODE_ENDS;
    }
    if (base == SP && (mode == 1 || mode == 3))
        at->up += n;
    return DP_BARE_CODE_GOES_ON;
}

/* Loads and stores of one register. */
static enum dp_bare_code_next move_one(struct dp_bare_code_place *at, uint32_t code)
{
    uint32_t reg = field(code, 0, 5), base = field(code, 5, 5);
    bool is_register = !field(code, 26, 1), is_far = field(code, 24, 1), by_register = !is_far && field(code, 21, 1);
    bool is_load = is_register && field(code, 22, 2) != 0;
    bool adds = !is_far && !by_register && field(code, 10, 1), is_behind = adds && !field(code, 11, 1);
    int64_t n = is_far ? (int64_t)field(code, 10, 12) << field(code, 30, 2) : signed_field(code, 12, 9);
    if (base == SP && is_load && !by_register && field(code, 30, 2) == 3)
        load(at, reg, at->up + (is_behind ? 0 : n));
    else if (is_load && (reg == FP || reg == LR))
        return DP_BARE_CODE_ENDS;
    if (base == SP && adds)
        at->up += n;
    return DP_BARE_CODE_GOES_ON;
}

static enum dp_bare_code_next jump_through_register(struct dp_bare_code_path *path, uint32_t code)
{
    bool is_link = field(code, 5, 5) == LR;
    switch (field(code, 21, 4)) {
    case 0: /* br: a switch, or the last call of the function */
        return dp_bare_code_put_off(path);
    case 1: /* blr */
        path->behind_call = true;
        return DP_BARE_CODE_GOES_ON;
    case 2: /* ret, and retaa, retab, whose register is 31 */
        return is_link || field(code, 11, 1) ? DP_BARE_CODE_RETURNS_HERE : DP_BARE_CODE_ENDS;
    case 8: /* braa, blraa with a modifier */
        return dp_bare_code_put_off(path);
    case 9:
        path->behind_call = true;
        return DP_BARE_CODE_GOES_ON;
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
        path->behind_call = code >> 31;
        bool is_end = path->behind_call && dp_bare_code_never_returns(path->code, target);
        *next = is_end ? DP_BARE_CODE_ENDS : path->behind_call ? DP_BARE_CODE_GOES_ON : dp_bare_code_jump(path, target);
    } else if ((code & 0xff000000) == 0x54000000 || (code & 0x7e000000) == 0x34000000) { /* b.cond, cbz, cbnz */
        *next = dp_bare_code_branch(path, pc + (uintptr_t)(signed_field(code, 5, 19) * 4));
    } else if ((code & 0x7e000000) == 0x36000000) { /* tbz, tbnz */
        *next = dp_bare_code_branch(path, pc + (uintptr_t)(signed_field(code, 5, 14) * 4));
    } else {
        return false;
    }
    return true;
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
    if ((code & 0xfe000000) == 0xd6000000)
        return jump_through_register(path, code);
    if ((code & 0x1f800000) == 0x11000000)
        return add_constant(at, code);
    if ((code & 0x3a000000) == 0x28000000)
        return move_pair(at, code);
    if ((code & 0x3a000000) == 0x38000000)
        return move_one(at, code);
    uint32_t to = field(code, 0, 5);
    bool is_logical = (code & 0x1f800000) == 0x12000000, is_extended = (code & 0x1fe00000) == 0x0b200000;
    if (((is_logical && field(code, 29, 2) != 3) || (is_extended && !field(code, 29, 1))) && to == SP)
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
