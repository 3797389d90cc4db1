/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/shield.h - calls a module that reads files, so that a crash of its libraries ends the call and not the
 * program. A debug file may be broken in a way that they do not expect.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Calls fn(ctx). False: it crashed and did not return; then its module must not be called any more, and what it had
 * allocated is lost. Context: under the symbols lock.
 */
bool dp_symbols_shield_call(void (*fn)(void *ctx), void *ctx);

/* Whether the calling thread is inside such a call. Async-signal-safe. */
bool dp_symbols_shield_is_inside(void);

/*
 * For the handler of a crash at pc. If the thread is inside a call, and pc lies in the module or in a library that
 * reads files for it, this ends the call and does not return. Otherwise, as for a crash inside the C library, which may
 * hold the lock of malloc then, it returns. mask: the signal mask of the interrupted code.
 */
void dp_symbols_shield_crashed(uintptr_t pc, const sigset_t *mask);

/* The loaded file with the code at *pc, which becomes its address there; "": the program, or none. Async-signal-safe.
 */
const char *dp_symbols_shield_file_at(uintptr_t *pc);

/* In a forked child, which may have left the thread with the call behind. Only stores. */
void dp_symbols_shield_fork_child(void);
