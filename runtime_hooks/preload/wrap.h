/* SPDX-License-Identifier: MIT */
/*
 * wrap.h - symbol names of the hooks in a fully static program. There the hooks cannot look up the next definition of
 * a function at run time.
 *
 * The linker's option --wrap=NAME turns every call of NAME into a call of __wrap_NAME, also inside libc. __wrap_NAME is
 * the hook, and __real_NAME is the function of libc.a. The sources name a hook NAME. This header gives it the symbol
 * name __wrap_NAME, and gives DP_REAL(NAME) the symbol name __real_NAME.
 */
#pragma once

#define DP_WRAP_REAL(name, result, parameters, arguments, version) \
    extern result dp_real_##name parameters __asm__("__real_" #name);
#define DP_WRAP_BOTH(name, result, parameters, arguments, version) \
    extern result name parameters __asm__("__wrap_" #name);        \
    DP_WRAP_REAL(name, result, parameters, arguments, version)
DP_SYMBOLS_MALLOC(DP_WRAP_BOTH)
DP_SYMBOLS_DERIVED(DP_WRAP_BOTH)
DP_SYMBOLS_ALIGNED(DP_WRAP_BOTH)
DP_SYMBOLS_PROCESS(DP_WRAP_BOTH)
DP_SYMBOLS_USER(DP_WRAP_BOTH)
DP_SYMBOLS_THREADS(DP_WRAP_BOTH)
DP_SYMBOLS_WORDS(DP_WRAP_REAL)
DP_SYMBOLS_JUMP(DP_WRAP_BOTH)
DP_SYMBOLS_EXEC(DP_WRAP_REAL)
DP_SYMBOLS_SIGNAL(DP_WRAP_BOTH)
DP_SYMBOLS_SIGACTION(DP_WRAP_BOTH)
DP_SYMBOLS_LOCKS(DP_WRAP_BOTH)
DP_SYMBOLS_CXX(DP_WRAP_BOTH)

/* Functions without a hook. */
#define DP_WRAP_NONE(name, result, parameters, arguments, version) \
    extern result dp_real_##name parameters __asm__(#name);
DP_SYMBOLS_TRIES(DP_WRAP_NONE)

#define DP_REAL(name)      dp_real_##name
#define DP_HOOK_NAME(name) "__wrap_" name
#define DP_GATE            dp_hooks_gate
extern struct deltaprof_gate dp_hooks_gate __attribute__((visibility("hidden")));
