/* SPDX-License-Identifier: MIT */
/* cli/preload.h - finds the library that `run` preloads, and the modules. */
#pragma once

#include <limits.h>
#include <stddef.h>

/* 0 and its absolute path, or -ENOENT or -EINVAL with the reason in why. */
int dp_preload_find(char path[PATH_MAX], char *why, size_t n_why);

/* 0 and the absolute path of the directory that modules are in, or -ENOENT. */
int dp_cli_module_dir(char dir[PATH_MAX]);
