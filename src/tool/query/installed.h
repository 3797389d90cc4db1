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

/* Returns 0 with the absolute path of the directory of the modules in dir, or -ENOENT. */
int dp_query_naming_module_dir(char dir[PATH_MAX]);
