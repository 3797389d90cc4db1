/* SPDX-License-Identifier: MIT */
/* tool/query/installed.h - finds files of this installation, such as the modules. */
#pragma once

#include <limits.h>
#include <stddef.h>

/*
 * Finds the first directory among `places` that has a file `name`. A place that does not begin with / is relative to
 * the directory of this program. Stores that directory in self. Returns 0 with the absolute path of the place in dir,
 * or -ENOENT.
 */
int dp_query_naming_installed(const char *const *places, size_t n_places, const char *name, char self[PATH_MAX],
                              char dir[PATH_MAX]);

/*
 * An installation may have two builds, for glibc and for musl. From the libraries of this build: those of the other
 * one, and its command deltaprof.
 */
#ifdef __GLIBC__
#define DP_OTHER_LIBC_LIBRARIES "/musl"
#define DP_OTHER_LIBC_COMMAND   "/musl/bin"
#else
#define DP_OTHER_LIBC_LIBRARIES "/.."
#define DP_OTHER_LIBC_COMMAND   "/../../bin"
#endif

/* Returns 0 with the absolute path of the directory of the modules in dir, or -ENOENT. */
int dp_query_naming_module_dir(char dir[PATH_MAX]);
