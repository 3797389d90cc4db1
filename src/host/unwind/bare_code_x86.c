/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/bare_code_x86.c - what instructions of x86_64 do to the stack pointer and to the frame pointer.
 *
 * A function that keeps a frame pointer begins with `push %rbp; mov %rsp, %rbp`. An interrupted path that leads there
 * without a call has not made the frame yet, and knows where the frame, and so the return address, will be.
 */
#include "host/unwind/bare_code_path.h"
#include "host/unwind/instruction.h"

#if defined(__x86_64__)

enum { RSP = 4, RBP = 5, PUSH_RBP = 0x55 };

/*
 * Loads the frame pointer from the stack. If the path has stored it there, it still has the caller's value where the
 * path begins.
 */
static void load_fp(struct dp_bare_code_place *at, int64_t from)
{
    at->knows_fp = false;
    if (!at->has_fp && !(at->kept_fp && from == at->fp_place)) {
        at->has_fp = true;
        at->saved_fp = from;
    }
}

static enum dp_bare_code_next pop(struct dp_bare_code_path *path, uint32_t reg)
{
    struct dp_bare_code_place *at = &path->at;
    if (reg == RSP)
        return DP_BARE_CODE_ENDS;
    if (reg == RBP)
        load_fp(at, at->up);
    at->up += 8;
    return DP_BARE_CODE_GOES_ON;
}

static enum dp_bare_code_next rest_on_fp(struct dp_bare_code_path *path, int64_t up)
{
    struct dp_bare_code_place *at = &path->at;
    if (at->knows_fp) {
        at->up = at->fp_up + up;
        return DP_BARE_CODE_GOES_ON;
    }
    if (at->has_fp || at->by_fp)
        return DP_BARE_CODE_ENDS;
    at->by_fp = true;
    at->up = up;
    return DP_BARE_CODE_GOES_ON;
}

/* mov %rsp, %rbp */
static enum dp_bare_code_next set_fp(struct dp_bare_code_path *path, bool pushed_fp)
{
    struct dp_bare_code_place *at = &path->at;
    if (path->code->is_sure && pushed_fp && !at->by_fp) {
        at->up += 8; /* the register still has the caller's value */
        return DP_BARE_CODE_RETURNS_HERE;
    }
    at->knows_fp = true;
    at->fp_up = at->up;
    return DP_BARE_CODE_GOES_ON;
}

/* An instruction of the group 80, 81, 83, 89, 8b, 8d, with sp as the operand that it writes; else it changes no sp. */
static enum dp_bare_code_next compute(struct dp_bare_code_path *path, const struct dp_instruction *i, bool pushed_fp)
{
    uint32_t reg = (i->modrm >> 3 & 7) | (i->rex & 4) << 1, rm = (i->modrm & 7) | (i->rex & 1) << 3;
    bool is_register = i->modrm >> 6 == 3;
    struct dp_bare_code_place *at = &path->at;
    switch (*i->opcode) {
    case 0x81:
    case 0x83: /* add, or, adc, sbb, and, sub, xor, cmp */
        if (!is_register || rm != RSP || (i->modrm >> 3 & 7) == 7)
            return DP_BARE_CODE_GOES_ON;
        if ((i->modrm >> 3 & 7) != 0 && (i->modrm >> 3 & 7) != 5)
            return DP_BARE_CODE_ENDS;
        at->up += (i->modrm >> 3 & 7) == 0 ? i->immediate : -i->immediate;
        return i->wide ? DP_BARE_CODE_GOES_ON : DP_BARE_CODE_ENDS;
    case 0x89: /* mov reg, rm */
        if (is_register && rm == RBP && reg == RSP && i->wide)
            return set_fp(path, pushed_fp);
        if (!is_register || rm != RSP)
            return DP_BARE_CODE_GOES_ON;
        return reg == RBP && i->wide ? rest_on_fp(path, 0) : DP_BARE_CODE_ENDS;
    case 0x8b: /* mov rm, reg */
        if (is_register && rm == RSP && reg == RBP && i->wide)
            return set_fp(path, pushed_fp);
        if (reg != RSP)
            return DP_BARE_CODE_GOES_ON;
        return is_register && rm == RBP && i->wide ? rest_on_fp(path, 0) : DP_BARE_CODE_ENDS;
    case 0x8d: /* lea rm, reg */
        if (reg != RSP)
            return DP_BARE_CODE_GOES_ON;
        if (rm == RBP && i->wide)
            return rest_on_fp(path, i->displacement);
        if (rm != RSP || !i->wide)
            return DP_BARE_CODE_ENDS;
        at->up += i->displacement; /* without an index: compilers write lea n(%rsp), %rsp only */
        return DP_BARE_CODE_GOES_ON;
    case 0x87: /* xchg */
        return is_register && (rm == RSP || reg == RSP) ? DP_BARE_CODE_ENDS : DP_BARE_CODE_GOES_ON;
    default:
        return DP_BARE_CODE_GOES_ON;
    }
}

/* Opcodes behind 0f, and ff. */
static enum dp_bare_code_next far(struct dp_bare_code_path *path, const struct dp_instruction *i, uintptr_t behind)
{
    if (*i->opcode == 0xff) {
        uint32_t operation = i->modrm >> 3 & 7;
        if (operation == 2 && path->code->is_sure)
            return DP_BARE_CODE_ENDS;
        if (operation == 2 || operation == 6) { /* call, push */
            path->behind_call = operation == 2;
            path->at.up -= operation == 6 ? 8 : 0;
        }
        if (operation == 4) /* jmp */
            return path->code->is_sure ? DP_BARE_CODE_ENDS : dp_bare_code_put_off(path);
        return operation == 3 || operation == 5 ? DP_BARE_CODE_ENDS : DP_BARE_CODE_GOES_ON; /* of other segments */
    }
    if ((i->opcode[1] & 0xf0) == 0x80)
        return dp_bare_code_branch(path, behind + (uintptr_t)i->immediate);
    return i->opcode[1] == 0x0b || i->opcode[1] == 0xa0 || i->opcode[1] == 0xa1 ? DP_BARE_CODE_ENDS
                                                                                : DP_BARE_CODE_GOES_ON;
}

/* Padding: nop with an operand, two-byte nop, int3. */
static bool is_padding(const struct dp_instruction *i)
{
    return (*i->opcode == 0x0f && i->opcode[1] == 0x1f) || *i->opcode == 0xcc ||
           (*i->opcode == 0x90 && !i->is_repeated && !i->rex);
}

/* Whether the frame pointer was pushed just before the place where the path begins. */
static bool begins_behind_push(struct dp_bare_code_path *path)
{
    return path->at.pc > path->code->start && dp_bare_code_can_read(path, path->at.pc - 1, 1) &&
           *(const uint8_t *)(path->at.pc - 1) == PUSH_RBP;
}

enum dp_bare_code_next dp_bare_code_step(struct dp_bare_code_path *path)
{
    struct dp_instruction i;
    struct dp_bare_code_place *at = &path->at;
    if (!dp_bare_code_can_read(path, at->pc, DP_INSTRUCTION_MOST) ||
        !dp_instruction_decode((const uint8_t *)at->pc, &i))
        return DP_BARE_CODE_ENDS;
    if (path->behind_call && is_padding(&i)) {
        path->behind_call = false;
        return dp_bare_code_put_off(path);
    }
    path->behind_call = false;
    bool pushed_fp = path->n_steps == 1 ? path->code->is_sure && begins_behind_push(path) : at->pushed_fp;
    uintptr_t behind = at->pc = at->pc + i.n_bytes;
    uint8_t opcode = *i.opcode;
    at->pushed_fp = opcode == PUSH_RBP && !(i.rex & 1);
    if (opcode >= 0x50 && opcode <= 0x57) {
        at->up -= 8;
        if (at->pushed_fp && !at->kept_fp) {
            at->kept_fp = true;
            at->fp_place = at->up;
        }
        return DP_BARE_CODE_GOES_ON;
    }
    if (opcode >= 0x58 && opcode <= 0x5f)
        return pop(path, (opcode & 7u) | (i.rex & 1u) << 3);
    if ((opcode >= 0x70 && opcode <= 0x7f) || (opcode >= 0xe0 && opcode <= 0xe3))
        return dp_bare_code_branch(path, behind + (uintptr_t)i.immediate);
    switch (opcode) {
    case 0x68:
    case 0x6a:
    case 0x9c: /* push */
        at->up -= 8;
        return DP_BARE_CODE_GOES_ON;
    case 0x8f:
    case 0x9d: /* pop */
        at->up += 8;
        return DP_BARE_CODE_GOES_ON;
    case 0xc9: /* leave: mov %rbp, %rsp; pop %rbp */
        return rest_on_fp(path, 0) == DP_BARE_CODE_ENDS ? DP_BARE_CODE_ENDS : pop(path, RBP);
    case 0xc2:
    case 0xc3:
        return DP_BARE_CODE_RETURNS_HERE;
    case 0xe8:
        path->behind_call = true;
        if (path->code->is_sure)
            return DP_BARE_CODE_ENDS;
        return dp_bare_code_never_returns(path->code, behind + (uintptr_t)i.immediate) ? DP_BARE_CODE_ENDS
                                                                                       : DP_BARE_CODE_GOES_ON;
    case 0xe9:
    case 0xeb:
        return dp_bare_code_jump(path, behind + (uintptr_t)i.immediate);
    case 0x0f:
    case 0xff:
        return far(path, &i, behind);
    case 0xca:
    case 0xcb:
    case 0xcc:
    case 0xcf:
    case 0xf4: /* far returns, int3, hlt */
        return DP_BARE_CODE_ENDS;
    default:
        return compute(path, &i, pushed_fp);
    }
}

/* A caller's stack pointer was a multiple of 16 at its call. */
bool dp_bare_code_is_callers(const struct dp_bare_code_place *at)
{
    return at->by_fp || (at->up >= 8 && (at->up + 8) % 16 == 0);
}

void dp_bare_code_fill(const struct dp_bare_code_place *at, struct dp_cfi_row *row)
{
    int64_t cfa = at->up + 8;
    row->cfa = DP_CFA_REGISTER;
    row->reg = at->by_fp ? DP_REG_FP : DP_REG_SP;
    row->offset = cfa;
    row->ra = (struct dp_cfi_where){.how = DP_SAVED_OFFSET, .offset = -8};
    row->sp = (struct dp_cfi_where){.how = DP_SAVED_SAME};
    bool is_saved = at->has_fp && (at->by_fp || at->saved_fp >= 0);
    row->fp = (struct dp_cfi_where){.how = is_saved ? DP_SAVED_OFFSET : DP_SAVED_SAME,
                                    .offset = is_saved ? at->saved_fp - cfa : 0};
}

#endif
