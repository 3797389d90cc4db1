/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/jit_debug.h - names of code that a compiler made at run time, from what it tells debuggers (the JIT
 * interface of GDB). Context: under the symbols lock, where the loader may be asked.
 */
#pragma once

#include "base/symbolize.h"

#include <stdbool.h>

/* Reads the compiler's list again if it has changed. */
void dp_symbols_jit_debug_refresh(void);

/* The name of the code at pc, valid until the next refresh. False: not known. */
bool dp_symbols_jit_debug_find(uintptr_t pc, struct dp_symbol_line *line);

/* Forgets what was read: for a forked child. */
void dp_symbols_jit_debug_abandon(void);
