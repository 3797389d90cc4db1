/* SPDX-License-Identifier: MIT */
/* naming/installed.h - finds files of this installation, such as the modules. */
#pragma once

#include <limits.h>
#include <stddef.h>

/*
 * Finds the first of the places that has a file `name`. A place that does not begin with / is relative to the directory
 * of this program, which is stored in self. 0 and the absolute path of the place in dir, or -ENOENT.
 */
int dp_naming_installed(const char *const *places, size_t n_places, const char *name, char self[PATH_MAX],
                        char dir[PATH_MAX]);

/* 0 and the absolute path of the directory that modules are in, or -ENOENT. */
int dp_naming_module_dir(char dir[PATH_MAX]);
