/* SPDX-License-Identifier: MIT */
/* modules/http_survive.h - runs the server so that a panic of libmicrohttpd ends only the server, not the process. */
#pragma once

#include <stdbool.h>

/*
 * Returns serve(arg)'s result. -ENOTRECOVERABLE: the library's state is broken, and serve was left by a long jump; the
 * daemon must not be used again. library_is_ours false: a panic ends the process, as the library does by default. One
 * call at a time.
 */
int dp_http_survive(int (*serve)(void *arg), void *arg, bool library_is_ours);
