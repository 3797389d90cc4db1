/* SPDX-License-Identifier: MIT */
/* cli/pusher.h - finds the program that sends profiles to a database. */
#pragma once

#include <limits.h>

/* 0 and its absolute path, or -ENOENT. */
int dp_cli_pusher(char path[PATH_MAX]);
