/* SPDX-License-Identifier: MIT */
/* modules/demangle.h - the names that people wrote, from those that linkers see (C++ and Rust; libiberty). */
#pragma once

#include <stddef.h>

/* 1: out holds the demangled name, clipped to n_bytes with its NUL. 0: the name is not a mangled one. No malloc. */
int dp_demangle(const char *mangled, char *out, size_t n_bytes);
