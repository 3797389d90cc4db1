/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/symbol_functions.h - keeps each distinct function of the lines that were found once, and numbers them
 * from 0: a profile needs one word for each, and compares no strings. Its strings are those of one set of
 * host/symbols/name_set.h.
 */
#pragma once

#include <stdint.h>

/* Its address does not change. */
struct dp_symbols_function {
    const char *name, *system_name; /* the same string, if they are alike */
    const char *file;               /* NULL: not known */
    int64_t start_line;
    uint32_t number;
};

/* What a location of one line consists of, besides its address. */
struct dp_symbols_place {
    uint32_t mapping : 30, has_file : 1, is_known : 1;
    uint32_t function; /* the number of a kept function */
    uint32_t line;
};

/* The kept function with these values. NULL: no memory. Context: under the symbols lock. */
const struct dp_symbols_function *dp_symbols_functions_keep(const struct dp_symbols_function *);

/* The function of a number that a kept one has. Context: any. */
const struct dp_symbols_function *dp_symbols_function(uint32_t number);

/* Finds none of the functions again, but their numbers stay: for a forked child whose parent was changing the table. */
void dp_symbols_functions_abandon(void);
