/* SPDX-License-Identifier: MIT */
/* tool/query/shorten.h - shortens names of C++ and Rust functions. */
#pragma once

/*
 * Shortens in place: no parameters, no return type, no template arguments beyond the first level, no default
 * allocators, no inline namespaces of the standard library; std::string for what it is an alias of. Other names stay.
 *     void std::vector<std::pair<int, long>, std::allocator<std::pair<int, long> > >::push_back(std::pair<int, long>&&)
 *     std::vector<std::pair>::push_back
 */
void dp_query_naming_shorten(char *name);
