/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/family.h - shares function names between a process and all processes forked from it: of many short-lived
 * workers only the first one reads symbol tables.
 */
#pragma once

#include "base/symbolize.h"
#include "host/objects/frames.h"

#include <stdbool.h>
#include <sys/types.h>

#define DP_FAMILY_ENTRY_BYTES 4096 /* a place with more names is not shared */

/* A place in a file's code, wherever it is loaded. */
struct dp_symbols_family_key {
    uint64_t place; /* pc - bias */
    uint32_t source;
    uint32_t n_build_id; /* never 0: names of files without a build-id are not shared */
    uint8_t build_id[32];
};

/* In the parent, before a fork: maps the shared memory, if that is not done. One mmap; async-signal-safe. */
void dp_symbols_family_fork_prepare(void);

/* Makes the key of a code frame. False: its names cannot be shared. */
bool dp_symbols_family_key(struct dp_symbols_family_key *, const struct dp_frame *frame, unsigned source);

/*
 * Finds the names of a place; their strings are in `text`. Returns the number of lines; 0: the place is known to have
 * no name; -ENOENT: not known. Context: any thread, async-signal-safe.
 */
int dp_symbols_family_find(const struct dp_symbols_family_key *, struct dp_symbol_line *lines, int max,
                           char text[DP_FAMILY_ENTRY_BYTES]);

/* Shares the names of a place. Does nothing if there is no shared memory, or no room in it. */
void dp_symbols_family_put(const struct dp_symbols_family_key *, const struct dp_symbol_line *lines, int n);
