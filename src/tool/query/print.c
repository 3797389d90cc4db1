/* SPDX-License-Identifier: MIT */
/* tool/query/print.c - prints error messages, and flushes standard output at the end. */
#include "tool/query/print.h"

#include "tool/query/units.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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
