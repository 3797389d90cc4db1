/* SPDX-License-Identifier: MIT */
/* host/unwind/signal_context.h - where registers lie in the ucontext_t of a signal's frame. */
#pragma once

#include <stddef.h>
#include <ucontext.h>

#if defined(__x86_64__)
enum {
    UCONTEXT_PC = offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]),
    UCONTEXT_SP = offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]),
    UCONTEXT_FP = offsetof(ucontext_t, uc_mcontext.gregs[REG_RBP]),
};
#elif defined(__aarch64__)
enum {
    UCONTEXT_PC = offsetof(ucontext_t, uc_mcontext.pc),
    UCONTEXT_SP = offsetof(ucontext_t, uc_mcontext.sp),
    UCONTEXT_FP = offsetof(ucontext_t, uc_mcontext.regs[29]),
    UCONTEXT_LINK = offsetof(ucontext_t, uc_mcontext.regs[30]),
};
#endif
