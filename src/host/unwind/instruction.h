/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/instruction.h - the length and the operands of an instruction of x86_64. Instructions with VEX and EVEX
 * prefixes are not known; code of compilers for the base architecture has none. Context: hook.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { DP_INSTRUCTION_MOST = 15 }; /* bytes */

struct dp_instruction {
    const uint8_t *opcode;
    uint32_t n_bytes;
    uint8_t rex, modrm;
    bool has_modrm, wide; /* wide: REX.W */
    bool is_short;        /* prefix 66: immediates of 16 bits */
    bool is_repeated;     /* prefix f2 or f3 */
    int64_t immediate;
    uint32_t n_immediate;
    int32_t displacement;
};

/* False: not known. DP_INSTRUCTION_MOST bytes can be read. */
bool dp_instruction_decode(const uint8_t *code, struct dp_instruction *i);
