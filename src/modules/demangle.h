/* SPDX-License-Identifier: MIT */
/* modules/demangle.h - turns linker names of C++ and Rust into the names in the source (libiberty). */
#pragma once

#include <stddef.h>

/* Returns 1: out holds the demangled name, cut to n_bytes with its NUL. 0: the name is not mangled. No malloc. */
int dp_demangle(const char *mangled, char *out, size_t n_bytes);
