/* SPDX-License-Identifier: MIT */
/*
 * tool/query/passing.h - recognizes functions that only pass an allocation or a lock operation on: users want to see
 * their caller. Names may be short or full.
 */
#pragma once

#include <stdbool.h>

/* operator new, std::vector's growth, xmalloc, zmalloc, ...; and what dp_query_naming_is_locking recognizes. */
bool dp_query_naming_is_passing(const char *name);
/* std::mutex::lock, g_mutex_lock, PGSemaphoreLock, take_gil, ... */
bool dp_query_naming_is_locking(const char *name);
/*
 * Functions of a language's own library: C++'s and Rust's namespaces, Python's importlib (by file). Users want to see
 * the functions of their own that call them and are called by them.
 */
bool dp_query_naming_is_library(const char *name, const char *file);
