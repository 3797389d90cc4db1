/* SPDX-License-Identifier: MIT */
/* print/print.h - prints error messages, and ends standard output. */
#pragma once

/* Exit statuses: something could not be done; wrong usage. Functions that return one have printed why. */
#define DP_EXIT_FAILED 1
#define DP_EXIT_USAGE  2

/* Writes `deltaprof VERB: ...` and a newline to stderr; verb NULL: `deltaprof: ...`. Cleans the text. */
void dp_print_error(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Flushes standard output. 0, or DP_EXIT_FAILED after one line: something could not be written. */
int dp_print_flush(const char *verb);
