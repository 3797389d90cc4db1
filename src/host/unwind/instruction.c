/* SPDX-License-Identifier: MIT */
/* host/unwind/instruction.c - decodes instructions by tables of what follows an opcode. */
#include "host/unwind/instruction.h"

#include <string.h>

/* Bytes of an immediate, by opcode: the one-byte map in rows of 16. m: modrm follows. */
enum { NONE, M, I1, I4, I2, MI1, MI4, BAD, PREFIX, MOV, OFFSET, ENTER, GROUP };
/* clang-format off */
static const uint8_t one_byte[256] = {
    /* 00 */ M, M, M, M, I1, I4, BAD, BAD, M, M, M, M, I1, I4, BAD, BAD,
    /* 10 */ M, M, M, M, I1, I4, BAD, BAD, M, M, M, M, I1, I4, BAD, BAD,
    /* 20 */ M, M, M, M, I1, I4, PREFIX, BAD, M, M, M, M, I1, I4, PREFIX, BAD,
    /* 30 */ M, M, M, M, I1, I4, PREFIX, BAD, M, M, M, M, I1, I4, PREFIX, BAD,
    /* 40: REX */ BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD,
    /* 50 */ NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE,
    /* 60 */ BAD, BAD, BAD, M, PREFIX, PREFIX, PREFIX, PREFIX, I4, MI4, I1, MI1, NONE, NONE, NONE, NONE,
    /* 70 */ I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1,
    /* 80 */ MI1, MI4, BAD, MI1, M, M, M, M, M, M, M, M, M, M, M, M,
    /* 90 */ NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, BAD, NONE, NONE, NONE, NONE, NONE,
    /* a0 */ OFFSET, OFFSET, OFFSET, OFFSET, NONE, NONE, NONE, NONE, I1, I4, NONE, NONE, NONE, NONE, NONE, NONE,
    /* b0 */ I1, I1, I1, I1, I1, I1, I1, I1, MOV, MOV, MOV, MOV, MOV, MOV, MOV, MOV,
    /* c0 */ MI1, MI1, I2, NONE, BAD, BAD, MI1, MI4, ENTER, NONE, I2, NONE, NONE, I1, BAD, NONE,
    /* d0 */ M, M, M, M, BAD, BAD, BAD, NONE, M, M, M, M, M, M, M, M,
    /* e0 */ I1, I1, I1, I1, I1, I1, I1, I1, I4, I4, BAD, I1, NONE, NONE, NONE, NONE,
    /* f0 */ PREFIX, NONE, PREFIX, PREFIX, NONE, NONE, GROUP, GROUP, NONE, NONE, NONE, NONE, NONE, NONE, M, M};
/* clang-format on */

/* The form of an opcode behind 0f. */
static uint8_t two_byte(uint8_t opcode)
{
    static const uint8_t plain[] = {0x05, 0x06, 0x08, 0x09, 0x0b, 0x30, 0x31, 0x32,
                                    0x33, 0x77, 0xa0, 0xa1, 0xa2, 0xa8, 0xa9};
    static const uint8_t with_byte[] = {0x70, 0x71, 0x72, 0x73, 0xa4, 0xac, 0xba, 0xc2, 0xc4, 0xc5, 0xc6};
    if ((opcode & 0xf0) == 0x80)
        return I4;
    if (opcode >= 0xc8 && opcode <= 0xcf)
        return NONE;
    if (memchr(plain, opcode, sizeof plain))
        return NONE;
    if (memchr(with_byte, opcode, sizeof with_byte))
        return MI1;
    if (opcode < 0x0d || opcode == 0x0e || opcode == 0x0f || (opcode >= 0x24 && opcode <= 0x27) ||
        (opcode >= 0x34 && opcode <= 0x3f) || opcode == 0xa6 || opcode == 0xa7 || opcode == 0xaa || opcode == 0xff)
        return BAD;
    return M;
}

static int64_t read_signed(const uint8_t *at, uint32_t n_bytes)
{
    int8_t one;
    int16_t two;
    int32_t four;
    int64_t eight = 0;
    switch (n_bytes) {
    case 1:
        memcpy(&one, at, sizeof one);
        return one;
    case 2:
        memcpy(&two, at, sizeof two);
        return two;
    case 4:
        memcpy(&four, at, sizeof four);
        return four;
    case 8:
        memcpy(&eight, at, sizeof eight);
        return eight;
    default:
        return 0;
    }
}

/* Bytes of the memory operand behind modrm. */
static uint32_t read_operand(struct dp_instruction *i, const uint8_t *at)
{
    uint32_t mode = i->modrm >> 6, rm = i->modrm & 7, n = 0, n_displacement = mode == 1 ? 1 : mode == 2 ? 4 : 0;
    if (mode == 3)
        return 0;
    if (rm == 4) {
        n = 1;
        if (mode == 0 && (at[0] & 7) == 5)
            n_displacement = 4;
    } else if (mode == 0 && rm == 5) {
        n_displacement = 4;
    }
    i->displacement = (int32_t)read_signed(at + n, n_displacement);
    return n + n_displacement;
}

bool dp_instruction_decode(const uint8_t *code, struct dp_instruction *i)
{
    const uint8_t *at = code;
    *i = (struct dp_instruction){0};
    for (; one_byte[*at] == PREFIX; at++) {
        i->is_short |= *at == 0x66;
        i->is_repeated |= *at == 0xf2 || *at == 0xf3;
        if (at - code >= 8)
            return false;
    }
    if ((*at & 0xf0) == 0x40)
        i->rex = *at++;
    i->wide = i->rex & 8;
    i->opcode = at;
    uint8_t form = one_byte[*at];
    if (*at == 0x0f) {
        at++;
        form = two_byte(*at);
        if (*at == 0x38 || *at == 0x3a) {
            form = *at == 0x38 ? M : MI1;
            at++;
        }
    }
    at++;
    if (form == BAD)
        return false;
    i->has_modrm = form == M || form == MI1 || form == MI4 || form == GROUP;
    if (i->has_modrm) {
        i->modrm = *at++;
        at += read_operand(i, at);
    }
    uint32_t n_word = i->is_short && !i->wide ? 2 : 4;
    switch (form) {
    case I1:
    case MI1:
        i->n_immediate = 1;
        break;
    case I2:
        i->n_immediate = 2;
        break;
    case I4:
        /* calls and jumps ignore the prefix */
        i->n_immediate = *i->opcode == 0xe8 || *i->opcode == 0xe9 || *i->opcode == 0x0f ? 4 : n_word;
        break;
    case MI4:
        i->n_immediate = n_word;
        break;
    case MOV:
        i->n_immediate = i->wide ? 8 : n_word;
        break;
    case OFFSET:
        i->n_immediate = 8;
        break;
    case ENTER:
        return false;
    case GROUP: /* only `test` has an immediate */
        i->n_immediate = (i->modrm >> 3 & 7) > 1 ? 0 : *i->opcode == 0xf6 ? 1 : n_word;
        break;
    }
    i->immediate = read_signed(at, i->n_immediate);
    at += i->n_immediate;
    i->n_bytes = (uint32_t)(at - code);
    return i->n_bytes <= DP_INSTRUCTION_MOST;
}
