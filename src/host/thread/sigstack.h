/* SPDX-License-Identifier: MIT */
/*
 * host/thread/sigstack.h - signal stacks for threads that have none, so that a stack overflow can still be reported.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether threads that are set up from now on get a signal stack. Async-signal-safe. */
void dp_thread_sigstack_want(bool on);

bool dp_thread_sigstack_is_wanted(void);

/* Threads with smaller numbers can have a signal stack. */
#define DP_SIGSTACKS 64u

/* Gives the calling thread signal stack number `slot`, if the thread has none and that number exists. Context: hook. */
void dp_thread_sigstack_install(unsigned slot);

/*
 * Takes the stack back, if the thread still has it. False: the thread is running on it. Context: hook, end of a thread.
 */
bool dp_thread_sigstack_remove(void);

/* Whether one of these stacks begins at sp. */
bool dp_thread_sigstack_is_ours(const void *sp);
