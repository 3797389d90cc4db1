/* SPDX-License-Identifier: MIT */
/*
 * base/module.h - opens the profiler's modules: shared objects, each of which links one outside library.
 *
 * A module is searched in deltaprof/ (installed) or modules/ (build tree) beside the object with this code, unless
 * `dir` is given; opened with RTLD_NOW | RTLD_LOCAL. It exports one symbol, dp_module_<name>, a table of function
 * pointers. In a static build the table is linked in and nothing is opened.
 */
#pragma once

#include "base/atomic.h"

#include <stddef.h>

#define DP_MODULE_ERROR_BYTES 512

/*
 * name: "gzip", "symbolize", ... The caller may set dir, and builtin, the table of a static build; all else begins as
 * zero.
 */
struct dp_module {
    const char *name, *dir;
    const void *builtin;
    const void *_Atomic ops;   /* the table, after opening */
    const char *_Atomic error; /* one line, after opening failed; it is not tried again */
    char loader_error[DP_MODULE_ERROR_BYTES];
    unsigned _Atomic loader_error_is_taken; /* by the thread that writes it */
};

/*
 * Every table begins with this. After loading, the address of the library function `probe` must lie in an object whose
 * file name contains `file`. If not, the host's own copy of the library would be called instead, and the module is
 * refused.
 */
struct dp_module_ops {
    unsigned abi;     /* DP_MODULE_ABI */
    const char *file; /* e.g. "libunwind"; NULL: nothing to probe */
    const void *probe;
};
#define DP_MODULE_ABI 3

/*
 * The table; opens the module if necessary. NULL: module->error has the reason. Thread-safe; takes no lock of the
 * profiler. Context: outside hooks, never in a child forked from a process with threads.
 */
const void *dp_module_open(struct dp_module *module);

/* Returns the table if the module is open already, else NULL. Any context. */
static inline const void *dp_module_opened(struct dp_module *module)
{
    return module->builtin ? module->builtin : dp_load_acquire(&module->ops);
}
