/* SPDX-License-Identifier: MIT */
/*
 * record/sigstack.h - signal stacks for threads that have none, so that a stack overflow can still be reported.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether threads that are set up from now on get a signal stack. Async-signal-safe. */
void dp_sigstack_want(bool on);

/* Gives the calling thread stack number `slot`, if it has no signal stack and there is such a number. Context: hook. */
void dp_sigstack_enter(unsigned slot);

/* Takes it back, if it is still the thread's. False: the thread runs on it. Context: hook, end of a thread. */
bool dp_sigstack_leave(void);

/* A stack of ours begins here. */
bool dp_sigstack_is_ours(const void *sp);
