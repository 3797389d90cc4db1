/* SPDX-License-Identifier: MIT */
/* tests/support/victim.h - for victims that a test controls: sleeps, prints lines, waits for the end of its input. */
#pragma once

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Sleeps that long, also if signals interrupt it. */
static inline void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
}

/* Whether the test closed its end of standard input; waits at most so long for that. */
static inline int stdin_ended(int ms)
{
    struct pollfd in = {STDIN_FILENO, POLLIN, 0};
    char c;
    return poll(&in, 1, ms) == 1 && read(STDIN_FILENO, &c, 1) <= 0;
}

static inline void wait_for_stdin(void)
{
    char c;
    while (read(STDIN_FILENO, &c, 1) > 0)
        ;
}

/* Writes a line at once, without stdio. */
static inline void say(const char *line)
{
    if (write(1, line, strlen(line)) < 0)
        _exit(9);
}
