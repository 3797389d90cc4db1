/* SPDX-License-Identifier: MIT */
/*
 * guard.c - resets a guarded countdown when its stack is abandoned, by unwinding or by longjmp.
 *
 * Hooks are C, so an exception that passes through them runs no code in them. DP_GUARDED names the personality
 * function below in their unwind entries; the unwinder calls it for each such frame that it drops. It uses no function
 * of libgcc_s. The reset draws a new distance to the next sample. That causes no bias, because the distribution of the
 * distances has no memory.
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

/* The word with the function's address that `.cfi_personality 0x9b` refers to. */
extern const _Unwind_Personality_Fn dp_guard_personality;
__attribute__((used)) const _Unwind_Personality_Fn dp_guard_personality = unwound;

/*
 * Resets the countdown: a longjmp out of a handler that interrupted a hook abandons the hook. For any other jump the
 * countdown is not guarded.
 */
static inline void jumping(void)
{
    if (deltaprof_is_guarded())
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
