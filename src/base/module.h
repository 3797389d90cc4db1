/* SPDX-License-Identifier: MIT */
/*
 * base/module.h - opens one of our modules, each a shared object of its own that brings somebody's library.
 *
 * Looked for in deltaprof/ beside the library that this code is in; RTLD_NOW | RTLD_LOCAL. A module exports one
 * symbol, a table of function pointers. In a static build the table is linked in, and nothing is opened.
 * Context: above the waterline, never in a hook, never in a child forked from a process with threads.
 */
#pragma once

/*
 * name: "gzip", "symbolize", ...; the table is the module's symbol dp_module_<name>. probe and file: after loading, the
 * address of the library function that table->probe names must lie in a file whose name contains `file`, else the host's
 * own copy answered and the module is refused. NULL with *error a static line for the log. A failure is remembered.
 */
struct dp_module {
    const char *name;
    const void *builtin; /* the table of a static build, or NULL */
    const void *ops;     /* after dp_module_open */
    const char *error;   /* after a failure */
};

/* Every table begins with this. */
struct dp_module_ops {
    unsigned abi;          /* DP_MODULE_ABI */
    const char *file;      /* part of the file name in which `probe` must lie, e.g. "libunwind" */
    const void *probe;     /* a function of the library that the module brings */
};
#define DP_MODULE_ABI 1

const void *dp_module_open(struct dp_module *module);
