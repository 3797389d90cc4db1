/* SPDX-License-Identifier: MIT */
/*
 * modules/elffile.h - one ELF file as the symbolize module sees it: its functions by address, and its DWARF.
 */
#pragma once

#include "report/symbol.h"

#include <elfutils/libdwfl.h>

struct function {
    GElf_Addr start, end;
    const char *name;
    unsigned char rank; /* which of several names at one address is shown */
    unsigned char sized;
};

struct unit {
    Dwarf_Addr start, end; /* in the process */
    Dwarf_Die cu;
    Dwarf_Addr bias;
};

struct elffile {
    Dwfl *dwfl;
    Dwfl_Module *module;
    struct function *functions; /* by start; NULL until first asked for */
    size_t n_functions;
    struct unit *units; /* by start; NULL until first asked for */
    size_t n_units;
    int has_functions, has_units; /* were asked for */
};

/* The function that holds pc; NULL: not known. */
const struct function *elffile_function(struct elffile *file, GElf_Addr pc);

/*
 * Lines at pc by DWARF, innermost first, with linkage names as system_name; 0: no DWARF there. Strings live as long as
 * the file.
 */
int elffile_lines(struct elffile *file, GElf_Addr pc, struct dp_symbol_line *lines, int max);
