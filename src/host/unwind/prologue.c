/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/prologue.c - reads how far the beginning of a function moves sp below its frame pointer.
 *
 * A walk that begins without the frame pointer register (sibling.c) cannot use a CFA that is counted from it. But the
 * code says where it is: behind `mov %rsp, %rbp` a function pushes registers and makes room, all before its first
 * branch, and sp stays there until it returns.
 *
 *     push %rbp; mov %rsp, %rbp; push %r15; push %rbx; sub $24, %rsp; ...; call f      fp = sp + 8 + 8 + 24
 *
 * That is not so if sp is aligned, or moved by a value that is not in the code (alloca), or if arguments were pushed
 * for the call. The first two are seen; the caller checks that a return address lies above the frame pointer, for the
 * third.
 */
#include "host/unwind/bare_code.h"

#include "base/mem.h"
#include "host/objects/reach.h"
#include "host/unwind/instruction.h"

#if defined(__x86_64__)

enum { STEPS_MOST = 512, RSP = 4, RBP = 5 };

struct prologue {
    bool has_fp; /* behind mov %rsp, %rbp */
    intptr_t depth_bytes;
};

enum next { NEXT_GOES_ON, NEXT_ENDS, NEXT_UNKNOWN };

static bool can_read(uintptr_t pc, uintptr_t end)
{
    return pc < end && end - pc >= DP_INSTRUCTION_MOST && dp_reach_probe(pc) &&
           dp_reach_probe(pc + DP_INSTRUCTION_MOST);
}

static bool is_branch(const struct dp_instruction *i)
{
    uint8_t opcode = *i->opcode, operation = i->modrm >> 3 & 7;
    return (opcode >= 0x70 && opcode <= 0x7f) || (opcode >= 0xe0 && opcode <= 0xe3) || opcode == 0xc2 ||
           opcode == 0xc3 || opcode == 0xe8 || opcode == 0xe9 || opcode == 0xeb || opcode == 0xc9 ||
           (opcode == 0xff && operation >= 2 && operation <= 5) ||
           (opcode == 0x0f && ((i->opcode[1] & 0xf0) == 0x80 || i->opcode[1] == 0x05)); /* jcc, syscall */
}

/* An instruction that may write sp, with an operand of modrm. */
static enum next compute(struct prologue *p, const struct dp_instruction *i)
{
    uint32_t reg = (i->modrm >> 3 & 7) | (i->rex & 4) << 1, rm = (i->modrm & 7) | (i->rex & 1) << 3;
    bool is_register = i->modrm >> 6 == 3;
    switch (*i->opcode) {
    case 0x81:
    case 0x83: /* add, or, adc, sbb, and, sub, xor, cmp */
        if (!is_register || rm != RSP || reg % 8 == 7)
            return NEXT_GOES_ON;
        p->depth_bytes += reg % 8 == 5 ? i->immediate : -i->immediate;
        return i->wide && (reg % 8 == 0 || reg % 8 == 5) ? NEXT_GOES_ON : NEXT_UNKNOWN;
    case 0x89: /* mov reg, rm */
    case 0x8b: /* mov rm, reg */
        if (!is_register)
            return *i->opcode == 0x8b && reg == RSP ? NEXT_UNKNOWN : NEXT_GOES_ON;
        if ((*i->opcode == 0x89 ? rm : reg) == RSP)
            return NEXT_UNKNOWN;
        if ((*i->opcode == 0x89 ? rm : reg) == RBP && (*i->opcode == 0x89 ? reg : rm) == RSP) {
            p->has_fp = true;
            p->depth_bytes = 0;
        }
        return NEXT_GOES_ON;
    case 0x01:
    case 0x29: /* add, sub */
        return is_register && rm == RSP ? NEXT_UNKNOWN : NEXT_GOES_ON;
    case 0x03:
    case 0x2b:
    case 0x8d: /* the same, and lea */
        return reg == RSP ? NEXT_UNKNOWN : NEXT_GOES_ON;
    default:
        return NEXT_GOES_ON;
    }
}

/* One instruction. A branch before the frame pointer is set is passed: what the function does first may need no frame.
 */
static enum next step(struct prologue *p, const struct dp_instruction *i)
{
    uint8_t opcode = *i->opcode;
    if (is_branch(i))
        return p->has_fp ? NEXT_ENDS : NEXT_GOES_ON;
    if ((opcode >= 0x50 && opcode <= 0x57) || opcode == 0x68 || opcode == 0x6a ||
        (opcode == 0xff && (i->modrm >> 3 & 7) == 6))
        p->depth_bytes += 8;
    else if (opcode >= 0x58 && opcode <= 0x5f && p->has_fp)
        return NEXT_UNKNOWN;
    else if (i->has_modrm && opcode != 0x0f)
        return p->has_fp || opcode == 0x89 || opcode == 0x8b ? compute(p, i) : NEXT_GOES_ON;
    return NEXT_GOES_ON;
}

bool dp_unwind_prologue_depth(uintptr_t start, uintptr_t pc, uintptr_t end, uintptr_t *depth_bytes)
{
    struct prologue p = {.has_fp = false};
    enum next next = NEXT_GOES_ON;
    uintptr_t at = start;
    for (int n = 0; at < pc && next == NEXT_GOES_ON; n++) {
        struct dp_instruction i;
        if (n == STEPS_MOST || !can_read(at, end) || !dp_instruction_decode((const uint8_t *)at, &i))
            return false;
        next = step(&p, &i);
        at += i.n_bytes;
    }
    *depth_bytes = (uintptr_t)p.depth_bytes;
    return p.has_fp && next != NEXT_UNKNOWN && p.depth_bytes >= 0;
}

#else

bool dp_unwind_prologue_depth(uintptr_t start, uintptr_t pc, uintptr_t end, uintptr_t *depth_bytes)
{
    (void)start, (void)pc, (void)end, (void)depth_bytes;
    return false;
}

#endif
