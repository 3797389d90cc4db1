/* SPDX-License-Identifier: MIT */
/* host/symbols/symbol.h - finds names for lookup addresses, each once, and keeps them. */
#pragma once

#include "base/mem.h"
#include "base/symbolize.h"
#include "config/config.h"
#include "host/symbols/symbol_functions.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The lines of one location. Its address does not change. */
struct dp_symbols_symbol {
    int n_lines;
    struct {
        const struct dp_symbols_function *function;
        int64_t line;
    } lines[];
};

/*
 * Opens the module that `how` needs. Not in a child forked from a process with threads: there only a module that is
 * already open is used. Takes the loader's lock, so the caller holds no lock of the profiler. A missing module is
 * logged once.
 */
void dp_symbols_load(enum dp_symbolize how);

/*
 * The files that one report has open, or all reports of a tick; zero: none. Not shared between threads: a descriptor is
 * valid only in the descriptor table of the thread that opened it, and the profiler's threads have separate tables. So
 * the thread that calls find also calls close.
 */
enum { DP_SYMBOL_BY_SYMBOLS, DP_SYMBOL_BY_LINES, DP_SYMBOL_SOURCES };
struct dp_symbols_files {
    struct {
        void *session;
        DP_VEC(int) handles; /* by mapping: 0 not added yet, else handle + 1 or -errno */
    } by[DP_SYMBOL_SOURCES];
    bool generated; /* the map of generated code was read */
};
void dp_symbols_close(struct dp_symbols_files *); /* *files is zero afterwards */

/*
 * Finds the lines of a code frame that lies in mapping `index`, or the variable of a frame of data, whose line is the
 * distance from its begin; NULL: not known. The module allocates from the host's
 * heap. Context: under the symbols lock, never in a signal handler.
 */
const struct dp_symbols_symbol *dp_symbols_find(struct dp_symbols_files *, uint32_t frame, uintptr_t pc, uint32_t index,
                                                enum dp_symbolize how);
/*
 * The same, but only from the cache and the names shared with the family. *missed: the module might know more.
 * Async-signal-safe, under the symbols lock.
 */
const struct dp_symbols_symbol *dp_symbols_cached(uint32_t frame, uint32_t index, enum dp_symbolize how, bool *missed);
/*
 * What dp_symbols_find has found holds while this is the same: it changes when another module answers, and in a
 * forked child. Never 0.
 */
uint64_t dp_symbols_answers(enum dp_symbolize how);
/* Whether dp_symbols_find can find what dp_symbols_cached missed. */
bool dp_symbols_can_ask(enum dp_symbolize how);

/* Drops all names: for a forked child whose parent was changing them. Under the symbols lock. */
void dp_symbols_abandon(void);
/*
 * atfork handlers: the first notes whether other threads exist, the second applies that to the child. They only store.
 */
void dp_symbols_fork_prepare(void);
void dp_symbols_fork_child(void);
/* This child was forked from a process with threads: the loader may be locked for ever. */
bool dp_symbols_loader_unusable(void);
