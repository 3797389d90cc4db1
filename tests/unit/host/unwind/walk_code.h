/* SPDX-License-Identifier: MIT */
/*
 * walk_code.h - functions of every shape of unwind rule, assembled with the unwind data that describe the shape, and a
 * table of the shapes. The functions are never executed: tests write their addresses into stacks.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

enum shape_kind { BY_SP, BY_FP, END, SIGNAL, FOREIGN, NONE };

/* Functions of CODE bytes each, in the order of shape_of(). o: words up to the CFA. s: words from the CFA down to the
 * saved frame pointer, 0: not saved. */
enum { CODE = 16, BY_SP_MAX = 12, BY_FP_MAX = 4, SLOTS = 8, N_ALONE = 12, N_BIG = 8, N_ODD = 8, N_MARKED = 2 };
enum {
    FIRST_BY_FP = BY_SP_MAX * SLOTS,
    FIRST_ALONE = FIRST_BY_FP + BY_FP_MAX * SLOTS,
    FIRST_BIG = FIRST_ALONE + N_ALONE,
    FIRST_ODD = FIRST_BIG + N_BIG,
    FIRST_MARKED = FIRST_ODD + N_ODD,
    N_SHAPES = FIRST_MARKED + N_MARKED,
    THE_END = FIRST_ODD,
    THE_SIGNAL,
    THE_NONE = FIRST_ODD + 4,
};

#if defined(__x86_64__)
#define SAVED "  .if s\n  .cfi_offset 6, -8*s\n  .endif\n"
#define ALONE ""
#define FP    "6"
#define PC    "16"
#define OTHER "3"
enum { CFA_AT_ENTRY = 1 };
#define SIGRETURN "0x48,0xc7,0xc0,0x0f,0,0,0,0x0f,0x05,0,0,0,0,0,0"
#elif defined(__aarch64__)
#define SAVED     "  .if s\n  .cfi_offset 29, -8*s\n  .cfi_offset 30, 8-8*s\n  .endif\n"
#define ALONE     "  .cfi_offset 30, -8*o\n"
#define FP        "29"
#define PC        "30"
#define OTHER     "19"
enum { CFA_AT_ENTRY = 0 };
#define SIGRETURN "0x68,0x11,0x80,0xd2,0x01,0,0,0xd4,0,0,0,0,0,0,0"
#endif
/* The no-op keeps the assembler from moving the directives that follow into a record that functions share. */
/* Instructions of which no path leads on: hlt, or zeros, which aarch64 does not have. */
#if defined(__x86_64__)
#define CODE_BYTES "  .skip 16, 0xf4\n"
#else
#define CODE_BYTES "  .skip 16\n"
#endif
#define FUNCTION(directives) "  .cfi_startproc\n  .cfi_escape 0\n" directives CODE_BYTES "  .cfi_endproc\n"
#define ALL_O(n, ...)        ".set o, 1\n.rept " #n "\n" __VA_ARGS__ " .set o, o+1\n.endr\n"
#define ALL_S(...)           " .set s, 0\n .rept 8\n" __VA_ARGS__ "  .set s, s+1\n .endr\n"
#define BIG(o, s)            ".set s," #s "\n" FUNCTION("  .cfi_def_cfa_offset 8*" #o "\n" SAVED)
#define FACTORED(o)          "  .cfi_escape 0x13, " #o "\n" /* CFA = sp - 8 * o */

/* clang-format off */
__asm__(".pushsection .text.walk_model,\"ax\",%progbits\n.balign 16\n"
        ".globl walk_model_code, walk_model_code_end\n.hidden walk_model_code, walk_model_code_end\n"
        "walk_model_code:\n"
        ALL_O(12, ALL_S(FUNCTION("  .cfi_def_cfa_offset 8*o\n" SAVED)))
        ALL_O(4, ALL_S(FUNCTION("  .cfi_def_cfa " FP ", 8*o\n" SAVED)))
        ALL_O(12, FUNCTION("  .cfi_def_cfa_offset 8*o\n" ALONE))
        BIG(100, 0) BIG(100, 2) BIG(100, 100) BIG(100, 120) BIG(600, 0) BIG(600, 2) BIG(600, 100) BIG(600, 127)
        FUNCTION("  .cfi_undefined " PC "\n")
        /* The kernel's signal frame if the return address is the second byte; elsewhere a marked frame of no words. */
        "  .cfi_startproc\n  .cfi_escape 0\n  .cfi_signal_frame\n  .byte 0," SIGRETURN "\n  .cfi_endproc\n"
        FUNCTION("  .cfi_def_cfa " OTHER ", 16\n")
        FUNCTION("  .cfi_def_cfa_offset 12\n")
        CODE_BYTES ".set s, 2\n"
        FUNCTION(FACTORED(0)) FUNCTION(FACTORED(1) SAVED) FUNCTION(FACTORED(6))
        FUNCTION("  .cfi_signal_frame\n  .cfi_def_cfa_offset 8*4\n" SAVED)
        FUNCTION("  .cfi_signal_frame\n  .cfi_def_cfa " FP ", 8*2\n" SAVED)
        "walk_model_code_end:\n.popsection\n");
/* clang-format on */
extern const char walk_model_code[], walk_model_code_end[];

struct shape {
    enum shape_kind kind;
    int o, s;
    bool alone;  /* aarch64: the return address is saved, and the frame pointer is not */
    bool marked; /* as a signal frame: the caller's pc is exact */
};

static struct shape shapes[N_SHAPES];

static void make_shapes(void)
{
    static const struct shape last[N_BIG + N_ODD + N_MARKED] = {
        {BY_SP, 100, 0, 0, 0}, {BY_SP, 100, 2, 0, 0}, {BY_SP, 100, 100, 0, 0}, {BY_SP, 100, 120, 0, 0},
        {BY_SP, 600, 0, 0, 0}, {BY_SP, 600, 2, 0, 0}, {BY_SP, 600, 100, 0, 0}, {BY_SP, 600, 127, 0, 0},
        {END, 0, 0, 0, 0},     {SIGNAL, 0, 0, 0, 0},  {FOREIGN, 0, 0, 0, 0},   {FOREIGN, 0, 0, 0, 0},
        {NONE, 0, 0, 0, 0},    {BY_SP, 0, 0, 0, 0},   {BY_SP, -1, 2, 0, 0},    {BY_SP, -6, 0, 0, 0},
        {BY_SP, 4, 2, 0, 1},   {BY_FP, 2, 2, 0, 1},
    };
    for (int k = 0; k < FIRST_ALONE; k++)
        shapes[k] = k < FIRST_BY_FP ? (struct shape){BY_SP, k / SLOTS + 1, k % SLOTS, false, false}
                                    : (struct shape){BY_FP, (k - FIRST_BY_FP) / SLOTS + 1, k % SLOTS, false, false};
    for (int o = 1; o <= N_ALONE; o++)
        shapes[FIRST_ALONE + o - 1] = (struct shape){BY_SP, o, 0, true, false};
    memcpy(&shapes[FIRST_BIG], last, sizeof last);
}

static struct shape shape_at(uintptr_t pc)
{
    uintptr_t from = pc - (uintptr_t)walk_model_code;
    if (from >= (uintptr_t)(walk_model_code_end - walk_model_code))
        return (struct shape){NONE, 0, 0, false, false};
    if (from / CODE == THE_SIGNAL && from % CODE)
        return (struct shape){BY_SP, CFA_AT_ENTRY, 0, false, true};
    return shapes[from / CODE];
}

/* Words from the CFA down to the return address; 0: it is in the link register. */
static int return_slot(struct shape s)
{
#if defined(__x86_64__)
    return 1;
#else
    return s.alone ? s.o : s.s ? s.s - 1 : INT_MAX;
#endif
}

#if defined(__x86_64__)
enum {
    CONTEXT = 0,
    CONTEXT_PC = offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]),
    CONTEXT_SP = offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]),
    CONTEXT_FP = offsetof(ucontext_t, uc_mcontext.gregs[REG_RBP]),
    CONTEXT_LINK = CONTEXT_PC, /* there is none */
};
#else
enum {
    CONTEXT = 128, /* behind the siginfo */
    CONTEXT_PC = CONTEXT + offsetof(ucontext_t, uc_mcontext.pc),
    CONTEXT_SP = CONTEXT + offsetof(ucontext_t, uc_mcontext.sp),
    CONTEXT_FP = CONTEXT + offsetof(ucontext_t, uc_mcontext.regs[29]),
    CONTEXT_LINK = CONTEXT + offsetof(ucontext_t, uc_mcontext.regs[30]),
};
#endif
