/* SPDX-License-Identifier: MIT */
/*
 * symbols/symbol.h - names for lookup addresses, once each and kept.
 */
#pragma once

#include "base/config.h"
#include "base/mem.h"
#include "base/symbolize.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The lines of one location; at an address that does not change. */
struct dp_symbol {
    int n_lines;
    struct dp_symbol_line lines[];
};

/*
 * Opens the module that is wanted, unless this is a child forked from a process with threads, where only one that is
 * open already serves. Takes the loader's lock: call it under none of ours. What is missing is said once.
 */
void dp_symbol_load(enum dp_symbolize how);

/*
 * The files that one report has open; zero: none. Never shared: a descriptor is a number in the table of the thread
 * that opened it, our threads have tables of their own, and the host may have several too. So the thread that finds is
 * the one that closes.
 */
enum { DP_SYMBOL_BY_SYMBOLS, DP_SYMBOL_BY_LINES, DP_SYMBOL_SOURCES };
struct dp_symbol_files {
    struct {
        void *session;
        DP_VEC(int) handles; /* by mapping; 0: not added yet, else handle + 1 or -errno */
    } by[DP_SYMBOL_SOURCES];
};
void dp_symbol_close(struct dp_symbol_files *); /* zero again */

/* The lines of a code frame that lies in mapping `index`; NULL: not known. The module allocates memory from the host's
 * heap. Context: under the symbols lock, never in a signal handler. */
const struct dp_symbol *dp_symbol_find(struct dp_symbol_files *, uint32_t frame, uintptr_t pc, uint32_t index,
                                       enum dp_symbolize how);
/* The same from what is known already, here or by a process of the family. missed: the module might know more.
 * Async-signal-safe, under the symbols lock. */
const struct dp_symbol *dp_symbol_cached(uint32_t frame, uint32_t index, enum dp_symbolize how, bool *missed);
/* Whether dp_symbol_find can find what dp_symbol_cached missed. */
bool dp_symbol_can_ask(enum dp_symbolize how);

/* Forgets all names: a forked child whose parent was at work here. Under the symbols lock. */
void dp_symbol_abandon(void);
/* atfork handlers: the first notes whether there are threads, the second makes that ours. Only store. */
void dp_symbol_fork_prepare(void);
void dp_symbol_fork_child(void);
/* This child was forked from a process with threads: the loader may be locked for ever. */
bool dp_symbol_loader_unusable(void);
