/* SPDX-License-Identifier: MIT */
/*
 * base/module.h - opens one of our modules, each a shared object of its own that brings somebody's library.
 *
 * Looked for in deltaprof/ (installed) or modules/ (build tree) beside the object that this code is in, unless `dir`
 * says where; RTLD_NOW | RTLD_LOCAL. A module exports one symbol, dp_module_<name>, a table of function pointers. In a
 * static build the table is linked in, and nothing is opened.
 */
#pragma once

#include "base/atomic.h"

#include <stddef.h>

/* name: "gzip", "symbolize", ...; the rest is zero at first, except dir, and builtin: the table of a static build. */
struct dp_module {
    const char *name, *dir;
    const void *builtin;
    const void *_Atomic ops;   /* the table, once it is open */
    const char *_Atomic error; /* a static line, once opening has failed; it is not tried again */
};

/*
 * Every table begins with this. After loading, the address of the library function `probe` must lie in an object whose
 * file name contains `file`; else the host's own copy answers in its place and the module is refused.
 */
struct dp_module_ops {
    unsigned abi;     /* DP_MODULE_ABI */
    const char *file; /* e.g. "libunwind"; NULL: nothing to probe */
    const void *probe;
};
#define DP_MODULE_ABI 1

/*
 * The table, or NULL with module->error saying why. Safe from several threads; takes no lock of ours.
 * Context: above the waterline, never in a hook, never in a child forked from a process with threads.
 */
const void *dp_module_open(struct dp_module *module);

/* The table if it is open already, else NULL. Any context. */
static inline const void *dp_module_opened(struct dp_module *module)
{
    return module->builtin ? module->builtin : dp_load_acquire(&module->ops);
}
