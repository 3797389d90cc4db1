/* SPDX-License-Identifier: MIT */
/* tool/query/print.h - prints error messages and progress, and flushes standard output at the end. */
#pragma once

#include <stddef.h>

/* Exit statuses. A function that returns one of them has printed the reason. */
#define DP_EXIT_FAILED 1 /* something could not be done */
#define DP_EXIT_USAGE  2 /* wrong options or arguments */
#define DP_EXIT_UNSURE 3 /* of check: what was measured does not tell */

/* Writes `deltaprof VERB: ...` and a newline to stderr; verb NULL: `deltaprof: ...`. Control
 * characters become `?`. */
void dp_query_print_error(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Flushes standard output. 0, or DP_EXIT_FAILED after one line: something could not be written. */
int dp_query_print_flush(const char *verb);

/*
 * Says on a terminal how far long work is: i of n files are read. Nothing is printed in the first second, and on a
 * stderr that is not a terminal. With i == n the line is removed.
 */
void dp_query_print_progress(const char *verb, size_t i, size_t n);
