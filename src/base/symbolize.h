/* SPDX-License-Identifier: MIT */
/*
 * base/symbolize.h - the seam to the symbolize module (symbol tables) and the lines module (DWARF), which have the same
 * table. A process asks them about itself, and the command about files.
 */
#pragma once

#include "base/module.h"

#include <stddef.h>
#include <stdint.h>

/* One line of a location: a function, or one that was inlined into it. Strings are the module's until the next call. */
struct dp_symbol_line {
    const char *name;        /* demangled */
    const char *system_name; /* as in the symbol table */
    const char *file;        /* NULL: not known */
    int64_t line, start_line;
};

struct dp_symbolize_ops {
    struct dp_module_ops base;
    /* A session sees one state of files; NULL: no memory. */
    void *(*open)(void);
    void (*close)(void *session);
    /*
     * Adds an ELF file: path to read, the build-id that it must have (n 0: any), its load bias. Returns a handle, or
     * -errno.
     */
    int (*add)(void *session, const char *path, const uint8_t *build_id, size_t n_build_id, uintptr_t bias);
    /* Lines at pc, innermost first, the last is the function itself. Number of lines; 0: nothing known. */
    int (*lookup)(void *session, int handle, uintptr_t pc, struct dp_symbol_line *lines, int max);
};
