/* SPDX-License-Identifier: MIT */
/* lookup.h - finds functions of libc without the loader. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Looks up n functions. names: for each its name, then its symbol version or "" for the default one, each ended by a
 * zero byte. Stores in found[i] the function that RTLD_NEXT would find, or NULL: unknown, ask dlsym. Takes no lock and
 * no memory. Context: any; it finds nothing once the process has threads.
 */
void dp_lookup_libc(const char *names, size_t n, void **found);

/*
 * libc_malloc_debug.so, which serves MALLOC_CHECK_ and mtrace, defines the malloc family in libc's versions and hides
 * it from dlsym, which would go on to libc. If that library has the next malloc behind this object, stores its
 * functions where found[i] is NULL. names, context: as above.
 */
void dp_lookup_debug(const char *names, size_t n, void **found);

/* Whether the executable exports that name, or its table cannot be read. Reads memory only. Context: any. */
bool dp_lookup_may_be_exported(const char *name);

/*
 * The function of that name which lies in [start, end), for names that need not be there; NULL: none. A dlsym that
 * fails leaves an error text, which the next dlsym frees: an allocator whose free calls dlsym would never return. Takes
 * the loader's lock, and no memory.
 */
void *dp_lookup_within(const char *name, uintptr_t start, uintptr_t end);
