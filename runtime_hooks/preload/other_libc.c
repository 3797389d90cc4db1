/* SPDX-License-Identifier: MIT */
/*
 * other_libc.c - keeps this object out of programs with musl, which inherit LD_PRELOAD from a program with glibc.
 *
 * musl's loader ends a program if a preloaded object needs a library that is not there, such as glibc. But an object
 * that defines `__libc_start_main` and `stdin` is a libc for it, and it takes itself instead. So this object has a
 * `stdin`, with a version that no program asks for: with glibc nobody finds it but dlsym, which is led to the same
 * file.
 *
 * In the other direction ld.so refuses an object of another system (examples/deploy/bundle.sh marks the one for musl).
 */
#include "hook.h"

#ifdef __GLIBC__
extern char _IO_2_1_stdin_[];

DP_HOOK extern void *stdin; /* not <stdio.h>'s: this object defines it */
void *stdin = _IO_2_1_stdin_;
#endif
