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

static bool is_prefix(const char *with, const char *text)
{
    return !strncmp(text, with, strlen(with));
}

/*
 * Whether this is a method of a type of Rust's library, or of its trait for a primitive type: <usize as
 * core::iter::Sum>::sum, <&mut alloc::string::String as core::fmt::Write>::write_str.
 */
static bool is_rust_type(const char *name)
{
    static const char *const signs[] = {"&", "*", "[", "(", "mut ", "const ", "dyn "};
    static const char *const crates[] = {"core::", "alloc::", "std::", "hashbrown::"};
    static const char *const primitives[] = {"u8",  "u16",  "u32",   "u64", "u128", "usize", "i8",   "i16", "i32",
                                             "i64", "i128", "isize", "f32", "f64",  "bool",  "char", "str", "T"};
    static const char *const traits[] = {" as core::", " as alloc::", " as std::"};
    name++;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (is_prefix(signs[i], name)) {
            name += strlen(signs[i]);
            i = (size_t)-1; /* from the first sign on */
        }
    if (BEGINS(name, crates))
        return true;
    for (size_t i = 0; i < sizeof primitives / sizeof *primitives; i++) {
        const char *end = name + strlen(primitives[i]);
        if (is_prefix(primitives[i], name) && BEGINS(end + strspn(end, "])"), traits))
            return true;
    }
    return false;
}

/* Whether the file is a source of Rust's library, as its build names it. */
static bool is_rust_source(const char *file)
{
    return (is_prefix("/rustc/", file) && strstr(file, "/library/")) || strstr(file, "/rustlib/src/rust/library/");
}

bool dp_query_naming_is_library(const char *name, const char *file)
{
    static const char *const frozen_prefixes[] = {"<frozen importlib"};
    return BEGINS(name, library_prefixes) || BEGINS(file, frozen_prefixes) || (*name == '<' && is_rust_type(name)) ||
           is_rust_source(file);
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
    static const char *const source_parts[] = {"/include/c++/", "/.cargo/registry/src/"};
    return BEGINS(file, source_prefixes) || CONTAINS(file, source_parts);
}

bool dp_query_naming_is_interpreter(const char *library)
{
    static const char *const interpreter_prefixes[] = {"python", "libpython", "lua", "liblua"};
    return BEGINS(library, interpreter_prefixes);
}
