/* SPDX-License-Identifier: MIT */
/*
 * other_libc.c - keeps this object out of programs with musl, which inherit LD_PRELOAD from a program with glibc.
 *
 * musl's loader ends a program if a preloaded object needs a library that is not there, such as glibc. But an object
 * that defines `__libc_start_main` and `stdin` counts as a libc: the loader then uses itself in its place. So this
 * object defines a symbol `stdin`. Its version is one that no program asks for, so programs with glibc are not linked
 * to it. dlsym can find it; it is an alias of glibc's own.
 *
 * In the other direction ld.so refuses an object of another system (examples/deploy/bundle.sh marks the one for musl).
 */
#include "hook.h"

#ifdef __GLIBC__
extern char _IO_2_1_stdin_[];

DP_HOOK extern void *stdin; /* not <stdio.h>'s: this object defines it */
void *stdin = _IO_2_1_stdin_;
#endif
