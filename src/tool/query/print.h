/* SPDX-License-Identifier: MIT */
/* tool/query/print.h - prints error messages, progress and colours, and flushes standard output at the end. */
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

/*
 * Colours of answers on a terminal. Nothing is coloured where standard output is no terminal, where TERM is dumb, or
 * where NO_COLOR (https://no-color.org) is set to any text; --color=always and --color=never decide otherwise.
 */
enum dp_query_colour {
    DP_COLOUR_NONE, /* back to the terminal's own */
    DP_COLOUR_BAD,
    DP_COLOUR_WARN,
    DP_COLOUR_GOOD,
    DP_COLOUR_HEAD,
    DP_COLOUR_LESS, /* details */
    DP_COLOURS,
};

/* For getopt_long and the help of a verb. */
#define DP_COLOUR_OPTION(value)                 \
    {                                           \
        "color", required_argument, NULL, value \
    }
#define DP_COLOUR_HELP "  --color WHEN      auto (default: on a terminal, unless NO_COLOR is set), always or never\n"

/* Takes the argument of --color. 0, or DP_EXIT_USAGE after one line. */
int dp_query_print_colour_option(const char *verb, const char *when);

/* The bytes that begin a colour; "" where nothing is coloured. */
const char *dp_query_print_colour(enum dp_query_colour);
