/* SPDX-License-Identifier: MIT */
/* tool/push/status.h - `deltaprof push --status`: prints what the journals of directories say. Changes nothing. */
#pragma once

#include <stddef.h>

/* Returns the exit status: 0, or 1 if a directory or a journal cannot be read. */
int dp_push_status(char **dirs, size_t n_dirs);
