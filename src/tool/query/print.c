/* SPDX-License-Identifier: MIT */
/* tool/query/print.c - prints error messages, progress and colours, and flushes standard output at the end. */
#include "tool/query/print.h"

#include "tool/query/units.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void dp_query_print_error(const char *verb, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *line;
    if (vasprintf(&line, format, args) >= 0) {
        dp_query_print_clean(line);
        fprintf(stderr, verb ? "deltaprof %s: %s\n" : "deltaprof%s: %s\n", verb ? verb : "", line);
        free(line);
    }
    va_end(args);
}

int dp_query_print_flush(const char *verb)
{
    if (!fflush(stdout) && !ferror(stdout))
        return 0;
    dp_query_print_error(verb, "standard output: %m");
    return DP_EXIT_FAILED;
}

/* ---- how far long work is: at most ten times a second, by one thread ----------------------------------------------
 */

static const double first_s = 1, every_s = 0.1;
static double begin_s, last_s; /* of CLOCK_MONOTONIC; 0: no work yet */
static bool is_shown;

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void dp_query_print_progress(const char *verb, size_t i, size_t n)
{
    double at = now();
    if (!begin_s)
        begin_s = at;
    if (i >= n && is_shown) {
        fputs("\r\033[K", stderr);
        is_shown = false;
    }
    if (i >= n || at - begin_s < first_s || at - last_s < every_s || !isatty(STDERR_FILENO))
        return;
    last_s = at;
    is_shown = true;
    fprintf(stderr, "\r\033[Kdeltaprof %s: %zu of %zu files", verb, i, n);
}

/* ---- colours ----------------------------------------------------------------------------------------------------- */

static enum { UNDECIDED, COLOURED, PLAIN } state;

static void decide(void)
{
    const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
    bool is_plain = (no && *no) || !terminal || !strcmp(terminal, "dumb") || !isatty(STDOUT_FILENO);
    state = is_plain ? PLAIN : COLOURED;
}

int dp_query_print_colour_option(const char *verb, const char *when)
{
    if (!strcmp(when, "always"))
        state = COLOURED;
    else if (!strcmp(when, "never"))
        state = PLAIN;
    else if (!strcmp(when, "auto"))
        decide();
    else {
        dp_query_print_error(verb, "--color %s: auto, always or never", when);
        return DP_EXIT_USAGE;
    }
    return 0;
}

const char *dp_query_print_colour(enum dp_query_colour colour)
{
    static const char *const codes[DP_COLOURS] = {
        [DP_COLOUR_NONE] = "\033[0m",  [DP_COLOUR_BAD] = "\033[31m", [DP_COLOUR_WARN] = "\033[33m",
        [DP_COLOUR_GOOD] = "\033[32m", [DP_COLOUR_HEAD] = "\033[1m", [DP_COLOUR_LESS] = "\033[2m"};
    if (state == UNDECIDED)
        decide();
    return state == COLOURED ? codes[colour] : "";
}
