/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/generated.h - names of code that a compiler made at run time, from the map that the program writes for
 * perf.
 *
 * The file is /tmp/perf-PID.map: "START SIZE NAME" for each piece of code, in hexadecimal; a later line replaces an
 * earlier one of the same addresses. Context: under the symbols lock, where files may be opened.
 */
#pragma once

#include "base/symbolize.h"

#include <stdbool.h>

/* Reads what was added to the map since the last call. */
void dp_symbols_generated_refresh(void);

/* The name of the code at pc, valid until the next call. False: not known. */
bool dp_symbols_generated_find(uintptr_t pc, struct dp_symbol_line *line);

/* Forgets the map without reading it: for a forked child, whose map is another file. */
void dp_symbols_generated_abandon(void);
