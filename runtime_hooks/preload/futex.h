/* SPDX-License-Identifier: MIT */
/* futex.h - the part of the hook of syscall() that handles futex calls. */
#pragma once

#include "hook.h"

/* System calls and operations that older headers do not name; the numbers are the same on every machine. */
enum { SYS_FUTEX_WAITV = 449, SYS_FUTEX_WAKE = 454, SYS_FUTEX_WAIT = 455, FUTEX_LOCK_PI2_ = 13 };

/*
 * Handles a call of syscall() whose number is SYS_futex or one of the three SYS_ numbers above. The hook must reach
 * this function by a tail call, because the function reads the last argument where the program put it.
 */
__attribute__((visibility("hidden"))) long dp_syscall_futex(long number, long a, long b, long c, long d,
                                                            DP_SYSCALL_LAST(long));
