/* SPDX-License-Identifier: MIT */
/*
 * base/symbolize.h - interface of the symbolize module (symbol tables) and the lines module (DWARF), which are alike. A
 * profiled process uses them for itself, the command for files.
 */
#pragma once

#include "base/module.h"

#include <stddef.h>
#include <stdint.h>

/*
 * One line of a location: a function, or one that was inlined into it. The module owns the strings; they are valid
 * until the next call.
 */
struct dp_symbol_line {
    const char *name;        /* demangled */
    const char *system_name; /* as in the symbol table */
    const char *file;        /* NULL: not known */
    int64_t line, start_line;
    uint32_t discriminator; /* as in the file: tells parts of one line apart; 0: none */
};

/* Ranges of code around an address, [start, end): the entry of the line table, and the piece of the function. */
struct dp_symbol_ranges {
    uintptr_t line_start, line_end;
    uintptr_t function_start, function_end;
};

struct dp_symbolize_ops {
    struct dp_module_ops base;
    /* A session keeps files open, so it sees one state of them. NULL: no memory. */
    void *(*open)(void);
    void (*close)(void *session);
    /*
     * Adds an ELF file: path to read, the build-id that it must have (n 0: any), its load bias. Returns a handle, or
     * -errno.
     */
    int (*add)(void *session, const char *path, const uint8_t *build_id, size_t n_build_id, uintptr_t bias);
    /* Writes the lines at pc, innermost first; the last is the function itself. Returns their number; 0: not known. */
    int (*lookup)(void *session, int handle, uintptr_t pc, struct dp_symbol_line *lines, int max);
    /*
     * Writes the variable that holds an address outside the code: its name, and as the line the distance from its
     * begin. 1; 0: not known.
     */
    int (*variable)(void *session, int handle, uintptr_t address, struct dp_symbol_line *line);
    /* Of a file with lines. 0; negative: there is no line, or no function. NULL: a module without lines. */
    int (*ranges)(void *session, int handle, uintptr_t pc, struct dp_symbol_ranges *ranges);
};
