/* SPDX-License-Identifier: MIT */
/*
 * tool/query/naming.h - shortens names of functions, and recognizes functions of which users want to see the caller.
 * Names may be short or full.
 */
#pragma once

#include <stdbool.h>

/* Functions that only pass an allocation on: operator new, std::vector's growth, xmalloc, zmalloc, ...; and those that
 * dp_query_naming_is_locking recognizes. */
bool dp_query_naming_is_passing(const char *name);
/* Functions that only pass a lock operation on: std::mutex::lock, g_mutex_lock, PGSemaphoreLock, take_gil, ... */
bool dp_query_naming_is_locking(const char *name);
/*
 * Functions of a language's own library: C++'s and Rust's namespaces, Python's importlib (by file). Users want to see
 * the functions of their own that call them and are called by them.
 */
bool dp_query_naming_is_library(const char *name, const char *file);
/* A path below the directories of the system's libraries, or of a language's packages. */
bool dp_query_naming_is_system_path(const char *path);
/* The source of a library function that was inlined into the program or instantiated there. */
bool dp_query_naming_is_library_source(const char *file);
/* The executable or the library of a runtime whose own functions (Python's, Lua's) are named. library: without its
 * path. */
bool dp_query_naming_is_interpreter(const char *library);

/*
 * Shortens in place: no parameters, no return type, no template arguments beyond the first level, no default
 * allocators, no inline namespaces of the standard library; std::string for what it is an alias of. Other names stay.
 *     void std::vector<std::pair<int, long>, std::allocator<std::pair<int, long> > >::push_back(std::pair<int, long>&&)
 *     std::vector<std::pair>::push_back
 */
void dp_query_naming_shorten(char *name);
