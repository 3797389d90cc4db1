/* SPDX-License-Identifier: MIT */
/*
 * tool/push/headers.h - reads the headers of a request, and its token, from the files that the user names.
 *
 * A file is used as it is or not at all: a request without its token or its tenant would be refused, or would be stored
 * in the name of another. So each line that cannot be sent as it stands is an error.
 */
#pragma once

#include <stddef.h>

#define DP_PUSH_HEADER_BYTES 8192 /* the longest line; most servers take no longer header */

/* Gets one line of the file, without blanks at its end. 0, or a negative errno, which ends the reading. */
typedef int (*dp_push_header_fn)(void *ctx, const char *line);

/*
 * Calls header for each line `Name: value` that is not empty. 0; -EIO: the file cannot be used, and why says so; or
 * header's error.
 */
int dp_push_headers_read(const char *path, dp_push_header_fn header, void *ctx, char *why, size_t n_why);

/* Calls token for the first line that is not empty. Returns as dp_push_headers_read does. */
int dp_push_headers_token(const char *path, dp_push_header_fn token, void *ctx, char *why, size_t n_why);
