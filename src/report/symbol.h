/* SPDX-License-Identifier: MIT */
/*
 * report/symbol.h - names for lookup addresses, once each and kept.
 */
#pragma once

#include "base/config.h"
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

/* Between the two, files that were opened stay open; nests. Context, as of all below: under the report lock. */
void dp_symbol_begin(void);
void dp_symbol_end(void);

struct dp_mapping;
/* The lines of a code frame that lies in mapping `index`; NULL: not known. */
const struct dp_symbol *dp_symbol_find(uint32_t frame, uintptr_t pc, uint32_t index, enum dp_symbolize how);

/* In a forked child: files that the parent had open are forgotten, unseen; names stay. */
void dp_symbol_abandon_session(void);
/* Forgets names too: a forked child whose parent was at work here. */
void dp_symbol_abandon(void);
/* atfork handlers: the first notes whether there are threads, the second makes that ours. Only store. */
void dp_symbol_fork_prepare(void);
void dp_symbol_fork_child(void);
/* This child was forked from a process with threads: the loader may be locked for ever. */
bool dp_symbol_confined(void);
