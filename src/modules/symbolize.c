/* SPDX-License-Identifier: MIT */
/*
 * modules/symbolize.c - the symbolize module: finds functions in .symtab and .dynsym of the file, of its separate debug
 * file, or of .gnu_debugdata. It needs only libelf and liblzma.
 */
#include "modules/session.h"

static int lookup(struct elffile *file, uintptr_t pc, struct dp_symbol_line *lines, int max)
{
    return dp_session_function(file, pc, lines);
}

static void *session_open(void)
{
    return dp_session_open(lookup, NULL);
}

__attribute__((visibility("default"))) const struct dp_symbolize_ops dp_module_symbolize = {
    .base = {.abi = DP_MODULE_ABI, .file = "libelf", .probe = (const void *)elf_begin},
    .open = session_open,
    .close = dp_session_close,
    .add = dp_session_add,
    .lookup = dp_session_lookup,
    .variable = dp_session_variable,
};
