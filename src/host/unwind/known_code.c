/* SPDX-License-Identifier: MIT */
/* host/unwind/known_code.c - compares code with instructions that are known. Code that cannot be read is none of them.
 */
#include "host/unwind/known_code.h"

#include "host/objects/reach.h"

#include <string.h>

static bool can_read(uintptr_t pc, size_t n_bytes)
{
    return dp_reach_probe(pc) && dp_reach_probe(pc + n_bytes);
}

bool dp_known_signal_return(uintptr_t pc)
{
#if defined(__x86_64__)
    static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}; /* mov $15, %rax; syscall */
#else
    static const uint8_t code[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4}; /* mov x8, #139; svc #0 */
#endif
    return can_read(pc, sizeof code) && !memcmp((const void *)pc, code, sizeof code);
}

#if defined(__x86_64__)

bool dp_known_follows_call(uintptr_t pc)
{
    if (!dp_reach_probe(pc - 8) || !dp_reach_probe(pc - 1))
        return false;
    const uint8_t *code = (const uint8_t *)pc;
    /* call rel32; or call through a register or memory: ff /2, with up to 5 bytes of address */
    bool found = code[-5] == 0xe8;
    for (int n = 2; n <= 7; n++)
        found |= code[-n] == 0xff && (code[1 - n] >> 3 & 7) == 2;
    return found;
}

bool dp_known_context_start(uintptr_t pc)
{
    static const uint8_t plain[] = {0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24}; /* mov %rbx, %rsp; mov (%rsp), %rdi */
    static const uint8_t shadow[] = {0x64, 0xf7, 0x04, 0x25, 72, 0, 0, 0, 2};  /* testl $2, %fs:72: a shadow stack? */
    static const uint8_t branch[] = {0xf3, 0x0f, 0x1e, 0xfa};                  /* endbr64, if it is there */
    if (!can_read(pc, sizeof branch + sizeof shadow))
        return false;
    const uint8_t *code = (const uint8_t *)pc;
    code += memcmp(code, branch, sizeof branch) ? 0 : sizeof branch;
    return !memcmp(code, plain, sizeof plain) || !memcmp(code, shadow, sizeof shadow);
}

bool dp_known_left_trace(const struct dp_cfi_row *row, uintptr_t pc)
{
    static const uint8_t code[] = {0x48, 0x8b, 0x4d, 0x50,  /* mov 80(%rbp), %rcx: the frame, from the Lua state */
                                   0x48, 0x83, 0xe1, 0xfc,  /* and $-4, %rcx */
                                   0x48, 0x89, 0x69, 0x10}; /* mov %rbp, 16(%rcx): the state, into the frame */
    return row->cfa == DP_CFA_REGISTER && row->reg == DP_REG_SP && row->offset == 80 && row->fp.offset == -16 &&
           can_read(pc, sizeof code) && !memcmp((const void *)pc, code, sizeof code);
}

#else

bool dp_known_follows_call(uintptr_t pc)
{
    if (pc % 4 || !dp_reach_probe(pc - 4))
        return false;
    uint32_t code;
    memcpy(&code, (const void *)(pc - 4), sizeof code);
    return code >> 26 == 0x25 || (code & 0xfefff800) == 0xd63f0800 ||
           (code & 0xfffffc1f) == 0xd63f0000; /* bl, blra*, blr */
}

bool dp_known_context_start(uintptr_t pc)
{
    (void)pc;
    return false;
}

bool dp_known_left_trace(const struct dp_cfi_row *row, uintptr_t pc)
{
    (void)row, (void)pc;
    return false;
}

#endif
