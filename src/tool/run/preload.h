/* SPDX-License-Identifier: MIT */
/* tool/run/preload.h - finds the library that `run` preloads. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The one for musl or glibc. 0 and its absolute path, or -ENOENT or -EINVAL with the reason in why. */
int dp_run_preload_find(bool is_musl, char path[PATH_MAX], char *why, size_t n_why);
