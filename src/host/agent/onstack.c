/* SPDX-License-Identifier: MIT */
/*
 * host/agent/onstack.c - switches the stack and calls a function: one frame keeps the old stack pointer in its frame
 * pointer. The unwind table describes that, so that a debugger, or a walk in a signal handler, can go on to the old
 * stack.
 */
#include "host/agent/onstack.h"

#include <stdint.h>

void dp_onstack_call(void *top, void (*fn)(void *), void *arg);

#if defined(__x86_64__)
__asm__(".pushsection .text\n"
        ".hidden dp_onstack_call\n"
        ".globl dp_onstack_call\n"
        ".type dp_onstack_call, @function\n"
        "dp_onstack_call:\n"
        "    .cfi_startproc\n"
        "    push %rbp\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset %rbp, -16\n"
        "    mov %rsp, %rbp\n"
        "    .cfi_def_cfa_register %rbp\n"
        "    mov %rdi, %rsp\n"
        "    mov %rdx, %rdi\n"
        "    call *%rsi\n"
        "    leave\n"
        "    .cfi_def_cfa %rsp, 8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size dp_onstack_call, . - dp_onstack_call\n"
        ".popsection\n");
#elif defined(__aarch64__)
__asm__(".pushsection .text\n"
        ".hidden dp_onstack_call\n"
        ".globl dp_onstack_call\n"
        ".type dp_onstack_call, %function\n"
        "dp_onstack_call:\n"
        "    .cfi_startproc\n"
        "    stp x29, x30, [sp, #-16]!\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset x29, -16\n"
        "    .cfi_offset x30, -8\n"
        "    mov x29, sp\n"
        "    .cfi_def_cfa_register x29\n"
        "    mov sp, x0\n"
        "    mov x0, x2\n"
        "    blr x1\n"
        "    mov sp, x29\n"
        "    .cfi_def_cfa_register sp\n"
        "    ldp x29, x30, [sp], #16\n"
        "    .cfi_def_cfa_offset 0\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size dp_onstack_call, . - dp_onstack_call\n"
        ".popsection\n");
#else
#error "deltaprof knows x86_64 and aarch64"
#endif

void dp_agent_call_on_stack(void *stack, size_t n_bytes, void (*fn)(void *), void *arg)
{
    uintptr_t top = ((uintptr_t)stack + n_bytes) & ~(uintptr_t)15;
    dp_onstack_call((void *)top, fn, arg);
}
