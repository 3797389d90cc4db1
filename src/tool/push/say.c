/* SPDX-License-Identifier: MIT */
/* tool/push/say.c - writes lines for people; control characters, which replies of servers may have, become `?`. */
#include "tool/push/say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *to_file;
static char last[1024];

void dp_push_say_to(const char *file)
{
    to_file = file;
}

void dp_push_say(const char *format, ...)
{
    char line[1024];
    int n = snprintf(line, sizeof line, "deltaprof push: ");
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    for (char *p = line; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = '?';
    if (!strcmp(line, last))
        return;
    strcpy(last, line);
    strcat(line, "\n");
    int fd = to_file ? open(to_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : STDERR_FILENO;
    if (fd < 0)
        return;
    ssize_t written = write(fd, line, strlen(line));
    (void)written; /* an error cannot be reported anywhere */
    if (to_file)
        close(fd);
}

void dp_push_say_well(void)
{
    *last = 0;
}
