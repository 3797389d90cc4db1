/* SPDX-License-Identifier: MIT */
/* tool/query/library.c - the list of the namespaces of C++'s and Rust's own libraries. */
#include "tool/query/naming.h"

#include <string.h>

/*
 * The namespaces of the libraries of C++ and Rust: their functions, methods of their types, and of any type by a
 * blanket impl. Functions without a symbol are named by their file.
 */
static const char *const library_prefixes[] = {
    "libstdc++.so",      "libc++.so",     "std::",        "__gnu_cxx::",  "__cxxabiv1::",  "core::",
    "alloc::",           "<std::",        "<core::",      "<alloc::",     "hashbrown::",   "<hashbrown::",
    "<T as core::",      "<T as alloc::", "<F as core::", "<I as core::", "<&T as core::", "<&mut F as core::",
    "<&mut I as core::", "<dyn core::",
};

bool dp_query_naming_is_library(const char *name, const char *file)
{
    for (size_t i = 0; i < sizeof library_prefixes / sizeof *library_prefixes; i++)
        if (!strncmp(name, library_prefixes[i], strlen(library_prefixes[i])))
            return true;
    return !strncmp(file, "<frozen importlib", strlen("<frozen importlib"));
}
