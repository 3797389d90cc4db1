/* SPDX-License-Identifier: MIT */
/* tool/run/preload.h - finds the library that `run` preloads. */
#pragma once

#include <limits.h>
#include <stddef.h>

/* 0 and its absolute path, or -ENOENT or -EINVAL with the reason in why. */
int dp_run_preload_find(char path[PATH_MAX], char *why, size_t n_why);
