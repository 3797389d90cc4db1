/* SPDX-License-Identifier: MIT */
/*
 * tool/query/library.c - which code is no code of the user, as lists: namespaces of C++'s and Rust's own libraries,
 * paths of the system's libraries and of their sources, and interpreters. The page has the same lists
 * (src/view/bundle.py).
 */
#include "tool/query/naming.h"

#include <string.h>

/* Does a text begin with one of the prefixes, or contain one of the parts? */
#define BEGINS(text, prefixes) begins((text), (prefixes), sizeof(prefixes) / sizeof *(prefixes))
#define CONTAINS(text, parts)  contains((text), (parts), sizeof(parts) / sizeof *(parts))

static bool begins(const char *text, const char *const *prefixes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strncmp(text, prefixes[i], strlen(prefixes[i])))
            return true;
    return false;
}

static bool contains(const char *text, const char *const *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(text, parts[i]))
            return true;
    return false;
}

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
    static const char *const frozen_prefixes[] = {"<frozen importlib"};
    return BEGINS(name, library_prefixes) || BEGINS(file, frozen_prefixes);
}

bool dp_query_naming_is_system_path(const char *path)
{
    static const char *const system_prefixes[] = {
        "/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/libexec/", "<frozen", "[vdso]",
    };
    static const char *const system_parts[] = {"/site-packages/", "/lib/python3"};
    return BEGINS(path, system_prefixes) || CONTAINS(path, system_parts);
}

bool dp_query_naming_is_library_source(const char *file)
{
    static const char *const source_prefixes[] = {"/usr/include/", "/usr/lib/gcc/"};
    static const char *const source_parts[] = {"/include/c++/"};
    return BEGINS(file, source_prefixes) || CONTAINS(file, source_parts);
}

bool dp_query_naming_is_interpreter(const char *library)
{
    static const char *const interpreter_prefixes[] = {"python", "libpython", "lua", "liblua"};
    return BEGINS(library, interpreter_prefixes);
}
