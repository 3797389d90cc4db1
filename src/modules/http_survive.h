/* SPDX-License-Identifier: MIT */
/*
 * modules/http_survive.h - runs the server so that libmicrohttpd's panic ends it and not the process.
 */
#pragma once

#include <stdbool.h>

/*
 * serve(arg)'s result. -ENOTRECOVERABLE: the library found its own state broken, and serve was left by a long jump: the
 * daemon must not be touched again. library_is_ours: else a panic ends the process, as the library does by itself. One
 * at a time.
 */
int dp_http_survive(int (*serve)(void *arg), void *arg, bool library_is_ours);
