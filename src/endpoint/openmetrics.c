/* SPDX-License-Identifier: MIT */
/* endpoint/openmetrics.c - formats lines and passes them to a write function, up to its first error. */
#include "endpoint/openmetrics.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void dp_openmetrics_print(struct dp_openmetrics *m, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (!m->err)
        m->err = n < 0 || (size_t)n >= sizeof line ? -EMSGSIZE : m->fn(m->ctx, line, (size_t)n);
}

void dp_openmetrics_family(struct dp_openmetrics *m, const char *name, const char *type, const char *unit,
                           const char *help)
{
    dp_openmetrics_print(m, "# TYPE deltaprof_%s %s\n", name, type);
    if (*unit)
        dp_openmetrics_print(m, "# UNIT deltaprof_%s %s\n", name, unit);
    if (*help)
        dp_openmetrics_print(m, "# HELP deltaprof_%s %s\n", name, help);
}
