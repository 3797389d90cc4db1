/* SPDX-License-Identifier: MIT */
/* tool/query/progress.c - prints how far long work is, at most ten times a second. Context: one thread. */
#include "tool/query/print.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

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
