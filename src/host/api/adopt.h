/* SPDX-License-Identifier: MIT */
/* host/api/adopt.h - makes the tables of another process those of this one, which has no hooks. */
#pragma once

#include "tmpfs/table_file.h"

/*
 * Copies the tables from the file and checks them, again at each call. Returns 0; or a negative errno as of struct
 * deltaprof_outside, with the reason in why. The header, as it was then, is that of dp_shared_file_header.
 */
int dp_outside_adopt(int fd, const char *proc, char *why, size_t n_why);
