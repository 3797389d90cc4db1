/* SPDX-License-Identifier: MIT */
/*
 * config/lock_kinds.h - reads the file of the key `lock_names`: which functions of the program wait in locks that are
 * made of futexes, and for what kind of lock. The process keeps one such table; it is read once.
 */
#pragma once

#include "config/config.h"
#include "profile/lock_kinds.h"

/*
 * Reads the file once; later calls do nothing. Returns 0, or a negative errno with error filled: the file cannot be
 * read, is too large, or has bad lines, which are named. After an error there is no table. Context: init.
 */
int dp_lock_kinds_read(const char *path, struct dp_config_error *error);

/*
 * The kind of the first line whose pattern matches the whole name of a function, which may be PASS; NONE: there is no
 * such line. Context: any thread.
 */
enum dp_lock_kind dp_lock_kinds_find(const char *name);
