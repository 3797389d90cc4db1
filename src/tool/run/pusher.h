/* SPDX-License-Identifier: MIT */
/* tool/run/pusher.h - finds the program that sends profiles to a database: `push` becomes it, `run` starts it. */
#pragma once

#include <limits.h>

/* 0 and its absolute path, or -ENOENT. */
int dp_run_pusher_find(char path[PATH_MAX]);
