/* SPDX-License-Identifier: MIT */
/*
 * guard.c - no guarded countdown stays behind when a stack is abandoned: by unwinding, or by longjmp.
 *
 * Hooks are C, so an exception passes them by without running anything of theirs. DP_GUARDED names this personality in
 * their unwind entries; the unwinder calls it for each such frame that it drops. It needs nothing of libgcc_s. The
 * distance that is drawn anew has no memory, so nothing is biased by it.
 */
#include "hook.h"

#include <setjmp.h>
#include <unwind.h>

static _Unwind_Reason_Code unwound(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                   struct _Unwind_Exception *exception, struct _Unwind_Context *context)
{
    if (actions & _UA_CLEANUP_PHASE)
        deltaprof_guard_reset();
    return _URC_CONTINUE_UNWIND;
}

/* What `.cfi_personality 0x9b` points to: a word that holds the function's address. */
extern const _Unwind_Personality_Fn dp_guard_personality;
__attribute__((used)) const _Unwind_Personality_Fn dp_guard_personality = unwound;

/* A jump out of a handler that interrupted a hook leaves the hook for good; any other finds the word as it should be.
 */
static inline void jumping(void)
{
    if (deltaprof_thread.countdown > DELTAPROF_GUARDED / 2)
        deltaprof_guard_reset();
}

#define JUMP(name)                                            \
    DP_HOOK void name(struct __jmp_buf_tag env[1], int value) \
    {                                                         \
        jumping();                                            \
        DP_REAL(name)(env, value);                            \
        __builtin_unreachable();                              \
    }

extern void __longjmp_chk(struct __jmp_buf_tag env[1], int value) __attribute__((noreturn));
#undef longjmp
#undef _longjmp
#undef siglongjmp
JUMP(longjmp)
JUMP(_longjmp)
JUMP(siglongjmp)
JUMP(__longjmp_chk)
