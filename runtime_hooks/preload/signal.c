/* SPDX-License-Identifier: MIT */
/*
 * signal.c - hooks of sigaction, signal and sigaltstack. Programs see SIG_DFL where the library has installed its
 * handler, and get that handler if they set SIG_DFL. They see no signal stack if the library gave the thread one.
 *
 * The library does the work of sigaction (deltaprof_sigaction). The older functions differ in flags and masks, which
 * only libc knows: their hooks call the real function, correct the handler that it returns, and pass the action that it
 * installed to deltaprof_sigaction.
 */
#include "hook.h"

DP_HOOK int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
    return deltaprof_sigaction(sig, act, old, DP_REAL(sigaction));
}

DP_HOOK int sigaltstack(const stack_t *stack, stack_t *old)
{
    return deltaprof_sigaltstack(stack, old, DP_REAL(sigaltstack));
}

/*
 * Defines the hook of a function that sets a handler and returns the previous one. SIGNAL(signal, ...) defines, without
 * errors:
 *
 *     sighandler_t signal(int sig, sighandler_t handler)
 *     {
 *         is = the handler that the kernel has; seems = the handler that the program believes to be set
 *         old = real_signal(sig, handler)
 *         deltaprof_sigaction(sig, the handler that is set now)      which the profiler may replace by its own
 *         return old == is ? seems : old;
 *     }
 */
#define SIGNAL(name, result, parameters, arguments, version)                                                  \
    DP_HOOK result name parameters;                                                                           \
    DP_HOOK result name parameters                                                                            \
    {                                                                                                         \
        struct sigaction is, seems, now = {.sa_handler = SIG_DFL};                                            \
        if (DP_REAL(sigaction)(sig, NULL, &is) || deltaprof_sigaction(sig, NULL, &seems, DP_REAL(sigaction))) \
            return DP_REAL(name) arguments;                                                                   \
        sighandler_t old = DP_REAL(name) arguments;                                                           \
        if (old != SIG_ERR && (handler == SIG_DFL || DP_REAL(sigaction)(sig, NULL, &now) == 0))               \
            deltaprof_sigaction(sig, &now, NULL, DP_REAL(sigaction));                                         \
        return old == is.sa_handler ? seems.sa_handler : old;                                                 \
    }
DP_SYMBOLS_SIGNAL(SIGNAL)
